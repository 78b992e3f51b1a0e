//! The end of scene 3: where the numbers of one patch are in an update, and how they become pixels again.

use leptos::prelude::*;
use unmask_core::AttackMethod;
use unmask_lesson::Beat;
use unmask_wire::view::{RoomView, TablesView};
use unmask_words::say;

use super::parts::{Stage, why_empty};
use crate::page::logic::{attacks, tiles::Tiles};

/// What the three steps show, once an attack has made it.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    /// If its owner shows it.
    original: Option<String>,
    solved: String,
    positions: String,
    patches: String,
    tiles: Tiles,
}

impl Shown {
    fn of(room: &RoomView) -> Option<Self> {
        let result = attacks::result(room, AttackMethod::Embedding)?;
        let owner = room.clients.iter().find(|client| client.id == result.client)?;
        let TablesView { positions, patches, per_side, .. } = result.tables.clone()?;
        Some(Self {
            original: owner.original.clone().map(String::from),
            solved: result.picture.clone()?.into(),
            positions: positions?.into(),
            patches: patches?.into(),
            tiles: Tiles { per_side: per_side.into() },
        })
    }
}

/// Why there is nothing to take apart.
fn why_nothing(room: &RoomView) -> &'static str {
    if room.architecture.vit().is_some_and(|config| !TablesView::fits(&config)) {
        return say::empty::too_many_numbers();
    }
    match attacks::result(room, AttackMethod::Embedding) {
        Some(result) if result.picture.is_none() => say::empty::no_picture(),
        _ => why_empty(room),
    }
}

/// The photograph with a chosen patch, the tables of the update, and at the last step the solution.
#[component]
pub fn Anatomy(stage: Stage) -> impl IntoView {
    let shown = stage.feed.optional(Shown::of);
    let why = stage.feed.part(why_nothing);
    let is_there = Memo::new(move |_| shown.with(Option::is_some));
    let beat = Memo::new(move |_| stage.place.get().beat());
    let tiles = Memo::new(move |_| shown.with(|shown| shown.as_ref().map(|shown| shown.tiles)).unwrap_or_default());
    // `None` is the middle one. It stays chosen while new updates come.
    let chosen = RwSignal::new(None::<usize>);
    view! {
        <Show
            when=move || is_there.get()
            fallback=move || view! { <p class="shot-empty" role="status">{move || why.get().unwrap_or(say::empty::waiting())}</p> }
        >
            <Tables shown beat tiles chosen/>
        </Show>
    }
}

/// A new update changes only the addresses of the pictures, so that the patch under the keyboard's focus stays.
#[component]
fn Tables(
    shown: Memo<Option<Shown>>,
    beat: Memo<Beat>,
    tiles: Memo<Tiles>,
    chosen: RwSignal<Option<usize>>,
) -> impl IntoView {
    let part =
        move |part: fn(&Shown) -> Option<String>| Memo::new(move |_| shown.with(|it| it.as_ref().and_then(part)));
    let original = part(|shown| shown.original.clone());
    let solved = part(|shown| Some(shown.solved.clone()));
    let positions = part(|shown| Some(shown.positions.clone()));
    let patches = part(|shown| Some(shown.patches.clone()));
    let at = Memo::new(move |_| {
        let tiles = tiles.get();
        chosen.get().filter(|at| *at < tiles.count()).unwrap_or(tiles.middle())
    });
    let is_shown = Memo::new(move |_| original.with(Option::is_some));
    let name = move || if is_shown.get() { say::shot::original() } else { say::shot::from_numbers() };
    let choose = move || match is_shown.get() {
        true => say::april::choose().to_owned(),
        // Nobody may take the reconstruction for the photograph.
        false => format!("{} · {}", say::shot::from_numbers(), say::april::choose()),
    };
    let tile = move |here: usize| {
        view! {
            <button
                type="button"
                class="patch"
                aria-label=say::april::patch(here + 1)
                aria-pressed=move || (at.get() == here).to_string()
                on:click=move |_| chosen.set(Some(here))
            ></button>
        }
    };
    let grid = move || (0..tiles.get().count()).map(tile).collect_view();
    let row = move || positions.with(|source| source.as_ref().map(|source| tiles.get().row(at.get(), source)));
    let last = move || match beat.get() {
        Beat::FindPositions => ().into_any(),
        Beat::FindPatches => view! { <Mixed patches/> }.into_any(),
        _ => view! { <Solution original solved tiles at/> }.into_any(),
    };
    view! {
        <div class="anatomy" class:only-positions=move || beat.get() == Beat::FindPositions>
            <figure>
                <div class="patches" style=move || format!("--per-side: {}", tiles.get().per_side)>
                    <img src=move || original.get().or_else(|| solved.get()) alt=name/>
                    <div class="patch-grid" role="group" aria-label=say::april::choose()>{grid}</div>
                </div>
                <figcaption>{choose}</figcaption>
            </figure>
            <figure class="table">
                <div class="rows" style=move || format!("--row: {}; --rows: {}", at.get(), tiles.get().count())>
                    <img src=move || positions.get() alt=say::april::rows()/>
                    <span class="row-mark" aria-hidden="true"></span>
                </div>
                <div class="strip-of-row" role="img" aria-label=say::april::row() style=row></div>
                <figcaption>{say::april::rows()}</figcaption>
                <p class="equation">"G" <sub>"pos"</sub> "[i] = δ" <sub>"i"</sub></p>
            </figure>
            {last}
        </div>
    }
}

/// The gradient of the patch embedding.
#[component]
fn Mixed(patches: Memo<Option<String>>) -> impl IntoView {
    view! {
        <figure class="table">
            <img class="numbers-mixed" src=move || patches.get() alt=say::april::mixed()/>
            <figcaption>{say::april::mixed()}</figcaption>
            <p class="equation">"G" <sub>"E"</sub> " = Σ" <sub>"i"</sub> " δ" <sub>"i"</sub> " x" <sub>"i"</sub> <sup>"T"</sup></p>
        </figure>
    }
}

/// The chosen patch as it was and as the equation gives it, and all patches that the equation gives.
#[component]
fn Solution(
    original: Memo<Option<String>>,
    solved: Memo<Option<String>>,
    tiles: Memo<Tiles>,
    at: Memo<usize>,
) -> impl IntoView {
    let crop = move |(source, name): (Memo<Option<String>>, &'static str)| {
        let style = move || source.with(|source| source.as_ref().map(|source| tiles.get().crop(at.get(), source)));
        view! {
            <figure hidden=move || source.with(Option::is_none)>
                <div class="crop" role="img" aria-label=name style=style></div>
                <figcaption>{name}</figcaption>
            </figure>
        }
    };
    let both = [(original, say::shot::original()), (solved, say::april::solved())];
    view! {
        <div class="table" data-testid="solved" data-patch=move || at.get()>
            <div class="crops">{both.into_iter().map(crop).collect_view()}</div>
            <p class="equation">"G" <sub>"pos"</sub> <sup>"T"</sup> " X = G" <sub>"E"</sub></p>
            <figure class="solved-whole">
                <img src=move || solved.get() alt=say::april::all()/>
                <figcaption>{say::april::all()}</figcaption>
            </figure>
        </div>
    }
}
