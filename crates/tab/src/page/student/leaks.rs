//! What attacks see of the student's own picture.

use leptos::prelude::*;
use unmask_core::AttackMethod;
use unmask_data::metrics::Level;

use super::trainer::Trainer;
use crate::protocol::Reconstruction;

/// What an attack shows of the student's own picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaked {
    pub result: Reconstruction,
    /// How much of it is recognisable, once it was compared.
    pub level: Option<Level>,
    /// Whether this tab's own attack made it, and not the relay.
    pub is_by_tab: bool,
}

impl Trainer {
    /// What leaks under the mask that the student tries.
    pub fn tried(self) -> Option<Leaked> {
        let result = self.own_mask.with(|tried| tried.as_ref()?.found.clone())?;
        let level = result.comparison.as_ref().and_then(|comparison| Level::of(&[comparison.ssim]));
        Some(Leaked { result, level, is_by_tab: true })
    }

    /// The last result of an attack.
    pub fn attack(self, method: AttackMethod) -> Option<Reconstruction> {
        self.attacks.with(|attacks| attacks.iter().find(|attack| attack.attack == method).cloned())
    }

    /// What the first of these attacks that made a picture shows of the student's own picture: this tab's result, or
    /// else the relay's; and how much is recognisable. Single rounds vary, so this tab's own rounds are taken together.
    pub fn leak(self, methods: &[AttackMethod]) -> Option<Leaked> {
        // What leaks of a public picture does not matter here.
        let is_private =
            |result: &Reconstruction| result.comparison.as_ref().is_none_or(|comparison| comparison.is_private);
        let own = |method: AttackMethod| {
            let own = self
                .own_attack
                .with(|own| own.as_ref()?.reconstructions.iter().find(|it| it.attack == method).cloned());
            let level = self.recent.with(|recent| Level::of(recent.get(&method)?));
            Some(Leaked { result: own.filter(is_private)?, level, is_by_tab: true })
        };
        let relays = |method: AttackMethod| {
            let result = self.attack(method).filter(is_private)?;
            let level = result.comparison.as_ref().and_then(|comparison| Level::of(&[comparison.ssim]));
            Some(Leaked { result, level, is_by_tab: false })
        };
        methods.iter().find_map(|method| own(*method).or_else(|| relays(*method)))
    }

    /// The relay's attack that came closest to the picture.
    pub fn closest(self) -> Option<AttackMethod> {
        self.attacks.with(|attacks| {
            let ssim = |attack: &Reconstruction| attack.comparison.as_ref().map_or(f32::NEG_INFINITY, |it| it.ssim);
            // Among equals the first wins, so that the large picture does not change needlessly.
            let order = |one: &&Reconstruction, other: &&Reconstruction| {
                ssim(one).total_cmp(&ssim(other)).then(other.attack.cmp(&one.attack))
            };
            attacks.iter().max_by(order).map(|attack| attack.attack)
        })
    }
}
