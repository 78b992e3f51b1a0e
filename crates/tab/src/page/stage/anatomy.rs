//! The end of scene 3: where the numbers of one patch are in an update, and how they become pixels again.

use leptos::prelude::*;
use unmask_core::AttackMethod;
use unmask_lesson::Beat;
use unmask_wire::view::TablesView;
use unmask_words::say;

use super::parts::{Stage, why_empty};
use crate::page::logic::{attacks, tiles::Tiles};

/// What the three steps show, once an attack has made it.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    original: Option<String>,
    solved: String,
    positions: String,
    patches: String,
    tiles: Tiles,
}

/// The photograph with a chosen patch, the tables of the update, and at the last step the solution.
#[component]
pub fn Anatomy(stage: Stage) -> impl IntoView {
    let shown = stage.feed.optional(|room| {
        let result = attacks::result(room, AttackMethod::Embedding)?;
        let owner = room.clients.iter().find(|client| client.id == result.client)?;
        let TablesView { positions, patches, per_side, .. } = result.tables.clone()?;
        Some(Shown {
            original: owner.original.clone(),
            solved: result.picture.clone()?,
            positions: positions?,
            patches: patches?,
            tiles: Tiles { per_side: per_side.into() },
        })
    });
    let why_empty = stage.feed.part(why_empty);
    let beat = Memo::new(move |_| stage.place.get().beat());
    // `None` is the middle one.
    let chosen = RwSignal::new(None::<usize>);
    let at = Memo::new(move |_| {
        let tiles = shown.with(|shown| shown.as_ref().map(|shown| shown.tiles)).unwrap_or_default();
        chosen.get().filter(|at| *at < tiles.count()).unwrap_or(tiles.middle())
    });
    view! {
        {move || match shown.get() {
            None => view! { <p class="shot-empty">{move || why_empty.get()}</p> }.into_any(),
            Some(shown) => view! { <Tables shown beat at chosen/> }.into_any(),
        }}
    }
}

#[component]
fn Tables(shown: Shown, beat: Memo<Beat>, at: Memo<usize>, chosen: RwSignal<Option<usize>>) -> impl IntoView {
    let Shown { original, solved, positions, patches, tiles } = shown;
    let row = move || tiles.row(at.get());
    let (strip, crops) = (positions.clone(), [original.clone(), Some(solved.clone())]);
    let tile = move |at_this: usize| {
        view! {
            <button
                type="button"
                class="patch"
                aria-label=say::april::patch(at_this + 1)
                aria-pressed=move || (at.get() == at_this).to_string()
                on:click=move |_| chosen.set(Some(at_this))
            ></button>
        }
    };
    let mixed = move |patches: String| {
        view! {
            <figure class="table">
                <img class="numbers-mixed" src=patches alt=say::april::mixed()/>
                <figcaption>{say::april::mixed()}</figcaption>
                <p class="equation">"G" <sub>"E"</sub> " = Σ" <sub>"i"</sub> " δ" <sub>"i"</sub> " x" <sub>"i"</sub> <sup>"T"</sup></p>
            </figure>
        }
    };
    let names = [say::shot::original(), say::april::solved()];
    let solution = move |crops: [Option<String>; 2]| {
        let crop = |(source, name): (Option<String>, &'static str)| {
            let style = move || source.as_ref().map(|source| tiles.crop(at.get(), source));
            view! {
                <figure>
                    <div class="crop" role="img" aria-label=name style=style></div>
                    <figcaption>{name}</figcaption>
                </figure>
            }
        };
        view! {
            <div class="table" data-testid="solved" data-patch=move || at.get()>
                <div class="crops">{crops.into_iter().zip(names).map(crop).collect_view()}</div>
                <p class="equation">"G" <sub>"pos"</sub> <sup>"T"</sup> " X = G" <sub>"E"</sub></p>
            </div>
        }
    };
    let last = move || match beat.get() {
        Beat::FindPositions => ().into_any(),
        Beat::FindPatches => mixed(patches.clone()).into_any(),
        _ => solution(crops.clone()).into_any(),
    };
    view! {
        <div class="anatomy" class:only-positions=move || beat.get() == Beat::FindPositions>
            <figure>
                <div class="patches" style=format!("--per-side: {}", tiles.per_side)>
                    <img src=original.unwrap_or(solved) alt=say::shot::original()/>
                    <div class="patch-grid" role="group" aria-label=say::april::choose()>{(0..tiles.count()).map(tile).collect_view()}</div>
                </div>
                <figcaption>{say::april::choose()}</figcaption>
            </figure>
            <figure class="table">
                <div class="rows" style=move || format!("--row: {}; --rows: {}", at.get(), tiles.count())>
                    <img src=positions alt=say::april::rows()/>
                    <span class="row-mark" aria-hidden="true"></span>
                </div>
                <div class="strip-of-row" role="img" aria-label=say::april::row() style=move || format!("background-image: url(\"{strip}\"); background-size: 100% {}00%; background-position: 0 {}%", tiles.count(), row())></div>
                <figcaption>{say::april::rows()}</figcaption>
                <p class="equation">"G" <sub>"pos"</sub> "[i] = δ" <sub>"i"</sub></p>
            </figure>
            {last}
        </div>
    }
}
