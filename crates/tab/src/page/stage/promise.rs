//! Scene 1: what federated learning promises. A drawing: the picture stays in the phone, numbers travel to the server.

use leptos::prelude::*;

use super::parts::Stage;
use crate::page::text::count;

/// Rows and columns of the drawn numbers.
const ROWS: u32 = 8;
const COLUMNS: u32 = 12;
/// Side of one of them, in SVG units.
const CELL: u32 = 18;

/// Phone, numbers and server; the second step sends the numbers, the third tries to send the picture.
#[component]
pub fn Promise(stage: Stage) -> impl IntoView {
    let numbers = stage.feed.part(|room| room.parameters);
    let numbers =
        move || numbers.get().filter(|numbers| *numbers > 0).map(|numbers| format!("{} numbers", count(numbers)));
    let step = move || stage.place.get().beat;
    let cells = (0..ROWS * COLUMNS).map(|place| {
        let (row, column) = (place / COLUMNS, place % COLUMNS);
        // No update is drawn here: the signs are spread as evenly as those of one.
        let sign = ["minus", "plus", "zero"][((place * place + 7 * place + row) % 11 % 3) as usize];
        view! { <rect class=format!("cell-{sign}") x=column * CELL y=row * CELL width=CELL - 2 height=CELL - 2></rect> }
    });
    view! {
        <svg class="promise" viewBox="0 0 1200 520" role="img" aria-label="A phone sends numbers to a server; the picture stays in the phone" data-step=step>
            <rect class="device" x="40" y="20" width="270" height="440" rx="36"></rect>
            <rect class="screen" x="62" y="64" width="226" height="352" rx="10"></rect>
            <rect class="device" x="870" y="60" width="290" height="110" rx="14"></rect>
            <rect class="device" x="870" y="190" width="290" height="110" rx="14"></rect>
            <rect class="device" x="870" y="320" width="290" height="110" rx="14"></rect>
            <circle class="lamp" cx="905" cy="115" r="10"></circle>
            <circle class="lamp" cx="905" cy="245" r="10"></circle>
            <circle class="lamp" cx="905" cy="375" r="10"></circle>
            <g class="photograph">
                <rect class="paper" x="85" y="100" width="180" height="180" rx="8"></rect>
                <circle class="sun" cx="220" cy="145" r="22"></circle>
                <path class="hills" d="M85 262 L140 190 L180 236 L212 206 L265 262 V272 Q265 280 257 280 H93 Q85 280 85 272 Z"></path>
            </g>
            <line class="wall" x1="345" x2="345" y1="20" y2="460"></line>
            <g class="numbers" transform="translate(67 310)">
                <g class="travels">{cells.collect_view()}</g>
            </g>
            <text x="175" y="500" text-anchor="middle">"phone"</text>
            <text x="600" y="500" text-anchor="middle">{numbers}</text>
            <text x="1015" y="500" text-anchor="middle">"server"</text>
        </svg>
    }
}
