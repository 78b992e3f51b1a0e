//! The teacher's dishonest relay: it fishes for a class, and where several pictures of that class are in a sum, it cuts a
//! feature until one is left.

use serde::{Deserialize, Serialize};
use unmask_attack::{AttackError, CutSearch};
use unmask_core::{Architecture, ThreatModel};
use unmask_federation::{Event, GlobalModel, RoomPhase};
use unmask_lesson::SumKind;

use super::{
    Classroom,
    control_error::{ControlError, DoctorError},
};

/// Most weights in a row for one class. A cut usually silences half of the pictures.
const MOST_TRIES: u32 = 20;

/// How weights are doctored. Its pictures come from rounds in which clients compute from the same pictures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fishing {
    class: u16,
    search: CutSearch,
    tries: u32,
}

impl Fishing {
    fn new(class: u16) -> Self {
        Self { class, search: CutSearch::new(0), tries: 1 }
    }

    pub(crate) fn class(self) -> u16 {
        self.class
    }

    pub(crate) fn threat(self) -> ThreatModel {
        if self.search.is_cut() { ThreatModel::FeatureFishing } else { ThreatModel::Fishing }
    }

    /// The next cut, if the gradient `[P]` of a sum at these weights is not of one picture.
    pub(crate) fn cut_after(self, architecture: Architecture, gradient: &[f32]) -> Option<CutSearch> {
        self.search.after(&architecture.vit()?, gradient)
    }

    fn with(self, search: CutSearch) -> Option<Self> {
        (self.tries < MOST_TRIES).then(|| Self { search, tries: self.tries + 1, ..self })
    }

    /// The same class with another feature and all pictures.
    fn uncut(self) -> Self {
        Self { search: self.search.with_another_feature(), tries: 1, ..self }
    }

    fn weights(self, model: &GlobalModel) -> Result<Vec<f32>, AttackError> {
        let (weights, class) = (&model.state.weights, self.class.into());
        match model.architecture.vit() {
            Some(config) => self.search.weights(&config, weights, class),
            None => unmask_attack::fishing(model.architecture, weights, class),
        }
    }
}

impl Classroom {
    /// Lets the relay cheat: it fishes for a class, on a copy of the model, or ends that.
    pub(super) fn fish(&mut self, class: Option<u16>) -> Result<(), ControlError> {
        if class.is_some() && self.room.seal().is_some() {
            return Err(DoctorError::Encrypted.into());
        }
        self.send_doctored(class.map(Fishing::new)).map_err(DoctorError::Attack)?;
        self.attacks.begin_search_for_cut();
        self.checks.forget_noticed();
        let line = match class {
            Some(class) => format!(
                "The teacher lets the relay cheat: from the next round on it sends weights that fish for \
                 class {class}. Every page says so, and the model stays as it was."
            ),
            None => "The relay is honest again from the next round on.".to_owned(),
        };
        self.say(line);
        self.tell_lesson();
        Ok(())
    }

    fn send_doctored(&mut self, fishing: Option<Fishing>) -> Result<(), AttackError> {
        let weights = fishing.map(|fishing| fishing.weights(self.room.model())).transpose()?;
        self.stage.fish(fishing);
        self.attacks.forget_fished();
        self.feed(Event::SendDoctored(weights));
        Ok(())
    }

    /// Another model ends what the relay did to the last one.
    pub(super) fn end_fishing(&mut self) {
        if self.stage.fishing().is_some() && !self.room.sends_doctored() {
            self.stage.fish(None);
            self.attacks.begin_search_for_cut();
            self.say("The relay is honest again: the model is another one.");
            self.tell_lesson();
        }
    }

    /// Fishes again, with fewer pictures of the class, if several came out of the last sum together.
    pub(super) fn fish_again(&mut self) {
        let Some(fishing) = self.stage.fishing() else { return };
        // The noise on the sum is tested with pictures that a cut could silence.
        let is_noisy = self.stage.place().beat().sum() == Some(SumKind::Noisy);
        if is_noisy && fishing.threat() == ThreatModel::FeatureFishing {
            self.attacks.begin_search_for_cut();
            // This cannot fail for the model that it fished on.
            let _ = self.send_doctored(Some(Fishing::new(fishing.class)));
            return;
        }
        let class = fishing.class;
        if self.attacks.forgets_cut() {
            let line =
                format!("The cut for pictures of class {class} is forgotten: it came from one that was withdrawn.");
            return self.fish_on(fishing.uncut(), line);
        }
        let Some((search, is_same)) = self.attacks.fished(fishing) else { return };
        // What is known of some pictures does not hold for others.
        let search = if is_same { search } else { search.with_another_feature() };
        match fishing.with(search) {
            Some(next) => {
                let line = format!(
                    "What came out of the sum is not one picture of class {class}. The relay tries another cut."
                );
                self.fish_on(next, line);
            }
            None => {
                let line = format!("The relay gives up: it cannot single out a picture of class {class} in the sum.");
                self.attacks.remark_sum(line.clone());
                self.say(line);
            }
        }
    }

    /// Sends other weights for the same class, and runs a round with them unless the teacher has paused the room.
    fn fish_on(&mut self, next: Fishing, line: String) {
        if self.send_doctored(Some(next)).is_err() {
            return;
        }
        self.say(line);
        if self.room.phase() == RoomPhase::Paused && !self.stage.is_held() {
            self.feed(Event::OneRound);
        }
    }
}
