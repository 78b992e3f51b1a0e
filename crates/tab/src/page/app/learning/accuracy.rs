//! Held-out accuracy by round.

use leptos::prelude::*;
use unmask_wire::view::EvaluationView;

use crate::page::{
    app::{curve::Drawing, feed::Feed},
    chart::{Point, Scale},
    words,
};

/// The newest accuracy, of how many pictures, and its curve; or why it is not measured.
#[component]
pub fn AccuracyCard(feed: Feed, evaluation: Memo<Option<EvaluationView>>) -> impl IntoView {
    let points = feed.part(|room| {
        let defence = |round| {
            // The model that round 0 began with was trained under nothing.
            let point = room.losses.iter().rev().find(|point| point.round <= round).or(room.losses.first());
            point.map_or(room.defence, |point| point.defence)
        };
        let point = |point: &unmask_wire::view::AccuracyPoint| Point {
            round: point.round,
            value: point.accuracy as f32,
            policy: defence(point.round),
        };
        room.accuracies.iter().map(point).collect::<Vec<_>>()
    });
    let points = Memo::new(move |_| points.get().unwrap_or_default());
    let accuracy = move || evaluation.with(|it| it.as_ref().filter(|it| it.pictures > 0).map(|it| it.accuracy));
    let part = move |of: fn(&EvaluationView) -> Option<String>| move || evaluation.with(|it| it.as_ref().and_then(of));
    view! {
        <section class="card curve" aria-label="Held-out accuracy" data-testid="evaluation" data-round=part(|it| Some(it.round.to_string()))>
            <h2>
                "Recognised "
                <b data-testid="accuracy" data-accuracy=move || accuracy().map(|accuracy| accuracy.to_string())>
                    {move || accuracy().map_or("–".to_owned(), |accuracy| format!("{:.0} %", accuracy * 100.0))}
                </b>
                <span class="sub">" "{part(words::evaluated)}</span>
            </h2>
            <p class="remark" data-testid="evaluation-remark" hidden=move || part(words::unmeasured)().is_none()>
                {part(words::unmeasured)}
            </p>
            <Drawing points scale=Scale::Share is_beside=Signal::from(true) label="Held-out accuracy by round"/>
        </section>
    }
}
