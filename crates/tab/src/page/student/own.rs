//! The student's own picture: what leaks of it, and who sees that.

use leptos::prelude::*;
use unmask_core::Scene;

use super::{draft::JoinDraft, trainer::Trainer};
use crate::{
    page::{
        text::{
            lesson::Level,
            student::{self, room as say},
            turn::Beside,
        },
        widgets::{holds, optional, part, picture::Pixels},
    },
    protocol::{Reconstruction, SentUpdate},
};

/// The picture, with what belongs beside it in the scene in force, and what is known of it.
#[component]
pub fn OwnPicture(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let scene = Memo::new(move |_| trainer.lesson.with(|lesson| lesson.scene));
    let beside = Memo::new(move |_| Beside::of(scene.get()));
    let is_leak = move || beside.get() == Beside::Leak;
    let own_attack = move |place: usize| {
        trainer.own_attack.with(|attack| attack.as_ref().and_then(|attack| attack.reconstructions.get(place).cloned()))
    };
    // Of a reconstruction of public pictures there is nothing to say here.
    let private = |result: &Reconstruction| result.comparison.as_ref().is_none_or(|comparison| comparison.is_private);
    let closest = Memo::new(move |_| is_leak().then(|| own_attack(0)).flatten().filter(private));
    // Where attackers are compared there are two.
    let other = Memo::new(move |_| (scene.get() == Scene::Attackers).then(|| own_attack(1)).flatten().filter(private));
    let by_relay = Memo::new(move |_| {
        let closest = is_leak().then(|| trainer.closest()).flatten()?;
        trainer.attack(closest).filter(private)
    });
    let numbers = move || {
        let drawing = |sent: &SentUpdate| sent.groups.iter().find_map(|group| group.after.clone());
        (beside.get() == Beside::Numbers).then(optional(trainer.sent, drawing)).flatten()
    };
    let ssim =
        |result: Memo<Option<Reconstruction>>| result.with(|result| Some(result.as_ref()?.comparison.as_ref()?.ssim));
    // Single rounds wander; this tab's own attack sees every one.
    let level = Memo::new(move |_| {
        let own = trainer.recent.with(|recent| Level::of(recent)).filter(|_| closest.with(Option::is_some));
        let relay = ssim(by_relay).and_then(|ssim| Level::of(&[ssim]));
        own.max(relay)
    });
    let is_stuck = holds(trainer.own_attack, |attack| attack.remark.is_some());
    let known = move || trainer.training.with(|training| student::known(level.get(), training.as_ref(), is_stuck()));
    view! {
        <div class="own-pictures">
            <figure>
                <Pixels
                    picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                    label=say::YOUR_PICTURE
                />
                <figcaption>{say::YOUR_PICTURE}</figcaption>
            </figure>
            <figure hidden=move || numbers().is_none()>
                <Pixels picture=Signal::derive(numbers) label=say::NUMBERS class="update"/>
                <figcaption>{say::NUMBERS}</figcaption>
            </figure>
            <Leak scene result=closest is_own_attack=true/>
            <Leak scene result=other is_own_attack=true/>
            <Leak scene result=by_relay is_own_attack=false/>
        </div>
        <p
            class="known"
            data-testid="known"
            data-level=move || level.get().map(Level::name)
            hidden=move || beside.get() == Beside::Nothing
        >
            {known}
        </p>
    }
}

/// What an attack made of the picture.
#[component]
fn Leak(scene: Memo<Scene>, result: Memo<Option<Reconstruction>>, is_own_attack: bool) -> impl IntoView {
    let caption = move || match scene.get() {
        Scene::Attackers if is_own_attack => part(result, |result| result.attack.attacker())(),
        _ => Some(student::leaked(is_own_attack)),
    };
    let is_there = move || result.with(|result| result.as_ref().is_some_and(|result| result.picture.is_some()));
    view! {
        <figure
            data-testid="leak"
            data-by=if is_own_attack { "tab" } else { "relay" }
            data-attack=part(result, |result| result.attack.name())
            data-round=part(result, |result| result.round)
            data-ssim=optional(result, |result| Some(result.comparison.as_ref()?.ssim.to_string()))
            hidden=move || !is_there()
        >
            <Pixels
                picture=Signal::derive(optional(result, |result| result.picture.clone()))
                label=say::LEAK
                class="photo"
            />
            <figcaption>{caption}</figcaption>
        </figure>
    }
}

/// Who sees what, and the way to take back what the class sees.
#[component]
pub fn WhoSees(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let who = move || student::who_sees(draft.has_own_picture(), draft.may_be_shown(), trainer.is_shown.get());
    let withdraw = move |_| {
        trainer.hide_original();
        // What leaks of one's own photograph goes with it; a sample is everybody's.
        if draft.has_own_picture() {
            draft.may_show.set(false);
            trainer.consent(false);
        }
    };
    view! {
        <p data-testid="who-sees">{who}</p>
        <button
            type="button"
            class="button danger large"
            data-testid="hide-original"
            hidden=move || !trainer.is_shown.get()
            on:click=withdraw
        >
            {say::HIDE}
        </button>
    }
}
