//! Held-out accuracy by round.

use leptos::prelude::*;
use unmask_wire::view::EvaluationView;

use crate::page::{
    app::{
        curve::CurveChart,
        feed::Feed,
        signals::{optional, part},
    },
    chart::{Point, Scale},
    words,
};

/// The newest accuracy, of how many pictures, and its curve; or why it is not measured.
#[component]
pub fn AccuracyCard(feed: Feed, evaluation: Memo<Option<EvaluationView>>) -> impl IntoView {
    let points = feed.part(|room| {
        let defence = |round| {
            // The model of round 0 was trained under no defence.
            let point = room.losses.iter().rev().find(|point| point.round <= round).or(room.losses.first());
            point.map_or(room.defence, |point| point.defence)
        };
        let point = |point: &unmask_wire::view::AccuracyPoint| Point {
            round: point.round,
            value: point.accuracy as f32,
            defence: defence(point.round),
        };
        room.accuracies.iter().map(point).collect::<Vec<_>>()
    });
    let points = Memo::new(move |_| points.get().unwrap_or_default());
    let accuracy = optional(evaluation, |it| (it.pictures > 0).then_some(it.accuracy));
    let remark = optional(evaluation, words::unmeasured);
    view! {
        <section class="card curve" aria-label="Held-out accuracy" data-testid="evaluation" data-round=part(evaluation, |it| it.round)>
            <h2>
                "Accuracy "
                <b data-testid="accuracy" data-accuracy=move || accuracy().map(|accuracy| accuracy.to_string())>
                    {move || accuracy().map_or("–".to_owned(), |accuracy| format!("{:.0} %", accuracy * 100.0))}
                </b>
                <span class="sub">" "{optional(evaluation, words::evaluated)}</span>
            </h2>
            <p class="remark" data-testid="evaluation-remark" hidden=move || remark().is_none()>
                {remark}
            </p>
            <CurveChart points scale=Scale::Share is_beside=Signal::from(true) label="Held-out accuracy by round"/>
        </section>
    }
}
