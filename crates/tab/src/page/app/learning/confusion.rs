//! The confusion matrix as a picture.

use leptos::prelude::*;
use unmask_wire::view::EvaluationView;

use crate::page::{
    app::signals::{optional, part},
    confusion::{Cell, Confusion},
};

/// Side of the matrix in SVG units, and the room for the names to its left and above it.
const SIDE: f32 = 400.0;
const NAMES: f32 = 92.0;
/// Most classes whose numbers fit their cells.
const NUMBERED: usize = 12;

/// Rows are what pictures show, columns what the model says; the shade is the share of the row.
#[component]
pub fn ConfusionCard(evaluation: Memo<Option<EvaluationView>>) -> impl IntoView {
    let confusion = optional(evaluation, |it| Confusion::new(it.classes.clone(), it.confusion.clone()));
    let confusion = Memo::new(move |_| confusion());
    let hovered = RwSignal::new(None::<String>);
    let sentence = part(confusion, Confusion::sentence);
    let scale = NAMES + SIDE;
    view! {
        <section class="card confusion" aria-label="Confusion matrix" data-testid="confusion" hidden=move || confusion.with(Option::is_none)>
            <h2>"What the model mistakes"</h2>
            <p class="verdict-line" data-testid="confusion-sentence">{sentence}</p>
            <svg
                viewBox=format!("0 0 {} {}", scale + 4.0, scale + 4.0)
                role="img"
                aria-label=sentence
                on:mouseleave=move |_| hovered.set(None)
            >
                {part(confusion, move |confusion| drawing(confusion, hovered))}
            </svg>
            <p class="sub" data-testid="confusion-hovered">
                {move || hovered.get().unwrap_or_else(|| {
                    "Row: what the picture shows. Column: what the model says. Blue is right, orange is wrong; the stronger the colour, the larger the share of the row.".to_owned()
                })}
            </p>
        </section>
    }
}

fn drawing(confusion: &Confusion, hovered: RwSignal<Option<String>>) -> impl IntoView + use<> {
    let classes = confusion.classes();
    let step = SIDE / classes.len() as f32;
    let size = (step * 0.42).clamp(5.0, 15.0);
    let centre = |place: usize| NAMES + (place as f32 + 0.5) * step;
    let shown = classes.iter().enumerate().map(|(place, name)| {
        view! {
            <text class="tick" font-size=size x=NAMES - 6.0 y=centre(place) text-anchor="end" dominant-baseline="central">{name.clone()}</text>
        }
    });
    let said = classes.iter().enumerate().map(|(place, name)| {
        let turned = format!("translate({} {}) rotate(-60)", centre(place), NAMES - 6.0);
        view! { <text class="tick" font-size=size transform=turned dominant-baseline="central">{name.clone()}</text> }
    });
    let has_numbers = classes.len() <= NUMBERED;
    let cells = confusion.cells().into_iter().map(|cell| square(confusion, cell, step, has_numbers, hovered));
    let (shown, said) = (shown.collect_view(), said.collect_view());
    view! {
        {shown}
        {said}
        {cells.collect_view()}
    }
}

fn square(
    confusion: &Confusion,
    cell: Cell,
    step: f32,
    has_numbers: bool,
    hovered: RwSignal<Option<String>>,
) -> impl IntoView + use<> {
    let (x, y) = (NAMES + cell.column as f32 * step, NAMES + cell.row as f32 * step);
    let text = confusion.describe(cell);
    // A mistake made with a tenth of the pictures is to be seen from the back of the room.
    let strength = if cell.is_right() { cell.share } else { cell.share.sqrt() };
    let number = (has_numbers && cell.count > 0).then(|| {
        view! {
            <text
                class:strong={strength > 0.6}
                font-size=(step * 0.4).min(17.0)
                x=x + step / 2.0
                y=y + step / 2.0
                text-anchor="middle"
                dominant-baseline="central"
            >
                {cell.count}
            </text>
        }
    });
    let title = text.clone();
    view! {
        <g class="cell" class:right=cell.is_right() on:mouseenter=move |_| hovered.set(Some(text.clone()))>
            <title>{title}</title>
            <rect class="back" x=x y=y width=step height=step></rect>
            <rect class="shade" x=x y=y width=step height=step fill-opacity=strength></rect>
            {number}
        </g>
    }
}
