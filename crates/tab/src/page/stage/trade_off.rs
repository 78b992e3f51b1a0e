//! Scene 7: leakage across, accuracy up. The relay's measured curve is grey; on it are the class's dots and those of
//! robots that train alongside the class.

use leptos::prelude::*;
use unmask_core::{Defence, TradeOffCurve};
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;

use super::{parts::Stage, vote::Votes};
use crate::page::{
    logic::{
        chart::{Cross, Dot, Frame, Mark, TradeOffChart},
        defence_label,
    },
    widgets::api,
};

const WIDTH: f32 = 800.0;
const HEIGHT: f32 = 540.0;
const FRAME: Frame = Frame { left: 96.0, top: 40.0, width: 670.0, height: 400.0 };

/// The chart, the vote for R, and the picture that belongs to the selected dot.
#[component]
pub fn TradeOff(stage: Stage) -> impl IntoView {
    let curve = RwSignal::new(None::<TradeOffCurve>);
    spawn_local(async move {
        let measured = api::trade_off().await;
        // The scene may have ended by now.
        let _ = curve.try_set(measured);
    });
    let class = stage.feed.part(|room| room.trade_off.clone());
    let shadow = stage.feed.part(|room| room.shadow.clone());
    let shadow = Memo::new(move |_| shadow.get().unwrap_or_default());
    let chart = Memo::new(move |_| {
        let class = class.get().unwrap_or_default();
        curve.with(|curve| {
            let points = curve.as_ref().map_or(&[][..], |curve| &curve.points);
            shadow.with(|shadow| TradeOffChart::new(points, &class, shadow, FRAME))
        })
    });
    // The robots' models take turns; show the round of the one furthest behind.
    let round = move || shadow.with(|points| points.iter().map(|point| point.rounds).min());
    let pointed = RwSignal::new(None::<Defence>);
    let behind = move || {
        let defence = pointed.get()?;
        let last = |frames: &Vec<super::parts::Frame>| {
            frames.iter().rev().find(|frame| frame.defence == defence).map(|frame| frame.source.clone())
        };
        stage.reel.frames.with(last)
    };
    let behind = Memo::new(move |_| behind());
    view! {
        <div class="trade-off" data-testid="trade-off" data-measured=move || chart.with(|chart| chart.measured.len()) data-class=move || chart.with(|chart| chart.class.len())>
            <Chart chart pointed/>
            <div class="trade-side">
                <p class="scale-legend">
                    <span class="of-curve">{say::trade::measured()}</span>
                    <span class="of-class">{say::trade::class()}</span>
                    {move || round().map(|round| view! { <span data-testid="shadow">{say::trade::robots(round)}</span> })}
                </p>
                <p class="shot-empty" hidden=move || chart.with(|chart| !chart.measured.is_empty())>{say::empty::no_curve()}</p>
                <Show when=move || behind.with(Option::is_some)>
                    <figure class="shot">
                        <figcaption>{move || pointed.get().map(defence_label)}</figcaption>
                        <img src=move || behind.get() alt=say::trade::behind()/>
                    </figure>
                </Show>
                <Votes stage/>
            </div>
        </div>
    }
}

/// The axes, the measured curve, the robots' dots and the class's.
#[component]
fn Chart(
    chart: Memo<TradeOffChart>,
    /// Set to the defence of the class's dot under the pointer or with the focus.
    pointed: RwSignal<Option<Defence>>,
) -> impl IntoView {
    view! {
        <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="group" aria-label=say::trade::chart()>
            {move || {
                let TradeOffChart { measured, path, class, robots, leakage, accuracy } = chart.get();
                view! {
                    {axes(leakage, accuracy)}
                    <path class="curve-path" d=path></path>
                    {measured.into_iter().map(cross).collect_view()}
                    {robots.into_iter().enumerate().map(robots_dot).collect_view()}
                    {class.into_iter().map(|dot| class_dot(dot, pointed)).collect_view()}
                }
            }}
        </svg>
    }
}

fn axes(leakage: Vec<Mark>, accuracy: Vec<Mark>) -> impl IntoView {
    let (bottom, right) = (FRAME.top + FRAME.height, FRAME.left + FRAME.width);
    view! {
        <line class="axis" x1=FRAME.left x2=right y1=bottom y2=bottom></line>
        <line class="axis" x1=FRAME.left x2=FRAME.left y1=FRAME.top y2=bottom></line>
        {leakage.into_iter().map(|tick| view! { <text x=tick.at y=bottom + 32.0 text-anchor="middle">{tick.text}</text> }).collect_view()}
        {accuracy.into_iter().map(|tick| view! { <text x=FRAME.left - 10.0 y=tick.at + 8.0 text-anchor="end">{tick.text}</text> }).collect_view()}
        <text x=FRAME.left y=HEIGHT - 12.0>{say::trade::less()}</text>
        <text x=right y=HEIGHT - 12.0 text-anchor="end">{say::trade::more()}</text>
        <text x=FRAME.left + 8.0 y="26">{say::trade::accuracy()}</text>
    }
}

fn cross(point: Cross) -> impl IntoView {
    view! {
        <g class="cross">
            <line x1=point.across[0] x2=point.across[1] y1=point.y y2=point.y></line>
            <line x1=point.x x2=point.x y1=point.up[0] y2=point.up[1]></line>
            <circle cx=point.x cy=point.y r="7"><title>{point.text}</title></circle>
        </g>
    }
}

fn robots_dot((place, dot): (usize, Dot)) -> impl IntoView {
    // Labels alternate between above and below: neighbours lie close together, since masks leave less of an untrained
    // model.
    let label_y = if place % 2 == 0 { dot.y + 44.0 } else { dot.y - 24.0 };
    let label = defence_label(dot.defence);
    let corner = format!("M{} {}l14 14l-14 14l-14 -14z", dot.x, dot.y - 14.0);
    view! {
        <path class="robots-dot" d=corner><title>{label.clone()}</title></path>
        <text class="robots-text" x=dot.x y=label_y text-anchor="middle">{label}</text>
    }
}

fn class_dot(dot: Dot, pointed: RwSignal<Option<Defence>>) -> impl IntoView {
    let (defence, label) = (dot.defence, defence_label(dot.defence));
    view! {
        <circle
            class="class-dot"
            class:hollow=!dot.has_accuracy
            data-testid="class-dot"
            tabindex="0"
            cx=dot.x
            cy=dot.y
            r="13"
            role="img"
            aria-label=label.clone()
            on:mouseenter=move |_| pointed.set(Some(defence))
            on:focus=move |_| pointed.set(Some(defence))
        >
            <title>{label.clone()}</title>
        </circle>
        <text class="class-text" x=dot.x y=dot.y - 22.0 text-anchor="middle">{label}</text>
    }
}
