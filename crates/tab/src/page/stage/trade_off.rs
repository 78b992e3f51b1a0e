//! Scene 7: what each R leaks and costs. Robots measure the columns beside the class, all with one model.

use leptos::prelude::*;
use unmask_words::say;

use super::{parts::Stage, vote::Votes};
use crate::page::logic::columns::{Column, columns, percent, rounds};

/// A column for each R, and the vote for R.
#[component]
pub fn TradeOff(stage: Stage) -> impl IntoView {
    let measured = stage.feed.optional(|room| room.columns.clone());
    let all = Memo::new(move |_| {
        let room = stage.defence();
        measured.with(|measured| measured.as_ref().map(|measured| columns(measured, room)).unwrap_or_default())
    });
    let places = Memo::new(move |_| all.with(Vec::len));
    let chance =
        Memo::new(move |_| measured.with(|measured| measured.as_ref().map(|it| it.chance)).unwrap_or_default());
    let setup = move || {
        measured.with(|measured| {
            let it = measured.as_ref()?;
            let (round, model) = (rounds(it), it.model.as_str());
            Some(if it.is_recorded {
                say::trade::recorded(round, it.robots, model, it.test_pictures)
            } else {
                say::trade::setup(round, it.robots, model, it.test_pictures)
            })
        })
    };
    view! {
        <div class="trade-off" data-testid="trade-off">
            <div class="trade-measured">
                <p class="shot-empty" hidden=move || places.get() != 0>{say::trade::none()}</p>
                <ul class="trade-columns" hidden=move || places.get() == 0>
                    {move || (0..places.get()).map(|place| view! { <OneColumn all place chance/> }).collect_view()}
                </ul>
                <p class="trade-legend" hidden=move || places.get() == 0>
                    <span class="of-right">{say::trade::right()}</span>
                    <span class="of-chance">{move || say::trade::chance(percent(chance.get()))}</span>
                </p>
                <p class="trade-setup" data-testid="trade-setup">{setup}</p>
            </div>
            <Votes stage/>
        </div>
    }
}

/// What an attacker sees at one R, above the share of test pictures that the model names right.
#[component]
fn OneColumn(all: Memo<Vec<Column>>, place: usize, chance: Memo<f64>) -> impl IntoView {
    let column = Memo::new(move |_| all.with(|all| all.get(place).cloned()));
    let rate = move || column.with(|column| column.as_ref().map(|it| it.rate.clone()).unwrap_or_default());
    let picture = Memo::new(move |_| column.with(|column| column.as_ref()?.picture.clone()));
    let right = Memo::new(move |_| column.with(|column| column.as_ref()?.right.clone()));
    let is_nearest = move || column.with(|column| column.as_ref().is_some_and(|it| it.is_nearest));
    let height = move || format!("height:{:.1}%", right.get().map_or(0.0, |(percent, _)| percent));
    view! {
        <li class="trade-column" data-testid="trade-column" data-rate=rate aria-current=move || is_nearest().then_some("true")>
            <h2>"R = " {rate}</h2>
            <Show
                when=move || picture.with(Option::is_some)
                fallback=|| view! { <p class="shot-empty">{say::trade::pending()}</p> }
            >
                <img src=move || picture.get() alt=move || say::trade::seen(rate())/>
            </Show>
            <div class="trade-bar">
                <span class="trade-fill" style=height data-testid="trade-right">
                    <b>{move || right.get().map(|(_, text)| text)}</b>
                </span>
                <span class="trade-chance" style=move || format!("bottom:{:.1}%", chance.get() * 100.0)></span>
            </div>
        </li>
    }
}
