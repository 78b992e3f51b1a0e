//! The game in scene 5: phones attack each other's masked updates. First the pictures to choose from, then the podium.

use leptos::prelude::*;
use unmask_lesson::Beat;
use unmask_wire::view::{PodiumView, RoomView, WinnerView};
use unmask_words::{say, shown_nickname};

use super::{
    parts::Stage,
    suspects::{Suspects, asked, suspects},
};

#[component]
pub fn Contest(stage: Stage) -> impl IntoView {
    let is_scored = Memo::new(move |_| stage.place.get().beat() == Beat::ShowScores);
    let lenders = stage.feed.part(|room| suspects(room, |room| room.situation().lenders()));
    let lenders = Memo::new(move |_| lenders.get().unwrap_or_default());
    view! {
        <div class="contest" data-testid="contest">
            <Show
                when=move || is_scored.get()
                fallback=move || view! {
                    <Suspects stage suspects=lenders is_told=false voted=say::contest::guessed too_few=say::contest::nobody_lends/>
                }
            >
                <Podium stage/>
            </Show>
        </div>
    }
}

/// Why there is no podium.
fn why_nobody(room: &RoomView) -> Option<&'static str> {
    match &room.podium {
        None if asked(room).is_none() => (room.situation().lenders().len() < 2).then(say::contest::nobody_lends),
        None => Some(say::contest::nobody_played()),
        Some(podium) if podium.attackers == 0 => Some(say::contest::nobody_played()),
        Some(podium) if podium.winners.is_empty() => Some(say::contest::nobody_found()),
        Some(_) => None,
    }
}

/// How many found the owner, against chance; `None` if nobody played.
fn counts(podium: &PodiumView) -> Option<String> {
    let PodiumView { attackers, found_before, found, suspects, .. } = *podium;
    (attackers > 0).then(|| say::contest::counts(found_before, attackers, found, suspects))
}

#[component]
fn Podium(stage: Stage) -> impl IntoView {
    let podium = stage.feed.optional(|room| room.podium.clone());
    let nobody = stage.feed.optional(why_nobody);
    let winners =
        move || podium.with(|podium| podium.as_ref().map(|podium| podium.winners.clone()).unwrap_or_default());
    let step = |(index, WinnerView { nickname, place, points, .. }): (usize, WinnerView)| {
        view! {
            <li class=format!("podium-step podium-step-{}", index + 1) data-testid="step" data-place=place data-points=points>
                <b class="step-name">{shown_nickname(&nickname)}</b>
                <span class="step-points">{say::contest::points(points.into())}</span>
                <span class="step-place" aria-hidden="true">{place}</span>
            </li>
        }
    };
    let others = move || podium.with(|podium| podium.as_ref().map_or(0, |podium| podium.others));
    view! {
        <p class="podium-nobody" role="status" data-testid="podium-nobody" hidden=move || nobody.with(Option::is_none)>{nobody}</p>
        <ol class="podium" data-testid="podium" hidden=move || winners().is_empty()>
            {move || winners().into_iter().enumerate().map(step).collect_view()}
        </ol>
        <p class="podium-others" hidden=move || others() == 0>{move || say::contest::others(others())}</p>
        <p class="podium-counts" role="status" data-testid="podium-counts">
            {move || podium.with(|podium| podium.as_ref().and_then(counts))}
        </p>
    }
}
