//! How well the room learns: loss, held-out accuracy, and what is taken for what.

mod accuracy;
mod confusion;
mod seats;

use leptos::prelude::*;
use unmask_core::TrainOn;

use self::{accuracy::AccuracyCard, confusion::ConfusionCard, seats::SeatsCard};
use super::{curve::LossCurve, feed::Feed};

/// Both curves, the confusion matrix, and who has which of the shared pictures.
#[component]
pub fn Learning(feed: Feed) -> impl IntoView {
    let evaluation = feed.optional(|room| room.evaluation.clone());
    let is_measured = Memo::new(move |_| evaluation.with(Option::is_some));
    let has_matrix = Memo::new(move |_| evaluation.with(|it| it.as_ref().is_some_and(|it| it.pictures > 0)));
    let is_shared = feed.part(|room| room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared));
    view! {
        <div class="learning" class:first=move || is_shared.get() == Some(true)>
        <div class="curves" class:beside=move || is_measured.get()>
            <LossCurve feed is_beside=is_measured/>
            <Show when=move || is_measured.get()>
                <AccuracyCard feed evaluation/>
            </Show>
        </div>
        <div class="learnt" class:beside=move || has_matrix.get() && is_shared.get() == Some(true)>
            <Show when=move || has_matrix.get()>
                <ConfusionCard evaluation/>
            </Show>
            <Show when=move || is_shared.get() == Some(true)>
                <SeatsCard feed/>
            </Show>
        </div>
        </div>
    }
}
