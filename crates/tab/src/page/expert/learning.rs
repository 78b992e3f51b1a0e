//! How well the room learns: loss, held-out accuracy, confusion matrix, the clients' shares, and how often each
//! parameter was updated.

use leptos::prelude::*;
use unmask_core::{Defence, TrainOn};
use unmask_wire::view::{DataView, EvaluationView, GroupCountsView, UpdateCountsView};

use crate::page::{
    logic::{
        self,
        chart::{Curve, Frame, Histogram, Mark, Point, Scale, labels},
        learning::{self, Cell, Confusion},
    },
    widgets::{feed::Feed, optional, part},
};

/// Both curves, the confusion matrix and the shares of the shared pictures.
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

/// The newest accuracy, the number of pictures behind it and its curve; or why it is not measured.
#[component]
pub fn AccuracyCard(feed: Feed, evaluation: Memo<Option<EvaluationView>>) -> impl IntoView {
    let points = feed.part(|room| {
        let defence = |round| {
            // No round trained the model of round 0; it gets the first round's defence.
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
    let remark = optional(evaluation, learning::unmeasured);
    view! {
        <section class="card curve" aria-label="Held-out accuracy" data-testid="evaluation" data-round=part(evaluation, |it| it.round)>
            <h2>
                "Accuracy "
                <b data-testid="accuracy" data-accuracy=move || accuracy().map(|accuracy| accuracy.to_string())>
                    {move || accuracy().map_or("–".to_owned(), |accuracy| format!("{:.0} %", accuracy * 100.0))}
                </b>
                <span class="sub">" "{optional(evaluation, learning::evaluated)}</span>
            </h2>
            <p class="remark" data-testid="evaluation-remark" hidden=move || remark().is_none()>
                {remark}
            </p>
            <CurveChart points scale=Scale::Share is_beside=Signal::from(true) label="Held-out accuracy by round"/>
        </section>
    }
}

/// The side of the matrix in SVG units, and the space for names to its left and above it.
const SIDE: f32 = 400.0;
const NAMES: f32 = 92.0;
/// The maximum number of classes whose counts fit into their cells.
const NUMBERED: usize = 12;

/// Rows are true classes, columns predictions; the shade is the share of the row.
#[component]
pub fn ConfusionCard(evaluation: Memo<Option<EvaluationView>>) -> impl IntoView {
    let confusion = optional(evaluation, |it| Confusion::new(it.classes.clone(), it.confusion.clone()));
    let confusion = Memo::new(move |_| confusion());
    let hovered = RwSignal::new(None::<String>);
    let sentence = part(confusion, Confusion::sentence);
    let scale = NAMES + SIDE;
    view! {
        <section class="card confusion" aria-label="Confusion matrix" data-testid="confusion" hidden=move || confusion.with(Option::is_none)>
            <h2>"What the model confuses"</h2>
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
    // A mistake on a tenth of the pictures must be visible from the back of the room.
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

/// The number of hues for classes; further classes reuse them.
const HUES: usize = 10;
/// A class's number is drawn if its part is at least this share of the longest bar.
const NUMBER_FITS: f64 = 0.04;

/// A bar for each seat, divided by class, which shows how similar the clients' shares are.
#[component]
pub fn SeatsCard(feed: Feed) -> impl IntoView {
    let data = feed.optional(|room| room.data.clone().filter(|data| !data.shards.is_empty()));
    let legend = part(data, |data| {
        let entry = |(place, name): (usize, &String)| {
            view! { <span><i class=format!("swatch hue-{}", place % HUES)>{place + 1}</i>{name.clone()}</span> }
        };
        data.classes.iter().enumerate().map(entry).collect_view()
    });
    let seats = part(data, |data| {
        let largest = data.shards.iter().map(|shard| shard.iter().sum::<u32>()).max().unwrap_or(0).max(1);
        data.shards.iter().enumerate().map(|(seat, shard)| bar(data, seat, shard, largest)).collect_view()
    });
    view! {
        <section class="card seats" aria-label="Shared pictures" data-testid="seats" hidden=move || data.with(Option::is_none)>
            <h2>"Who has which pictures"</h2>
            <p class="sub">
                {part(data, |data| format!("{}, divided {}. One bar per seat; clients take seats in turn.", data.name, learning::partition(data.partition)))}
            </p>
            <ul>{seats}</ul>
            <p class="legend">{legend}</p>
        </section>
    }
}

fn bar(data: &DataView, seat: usize, shard: &[u32], largest: u32) -> impl IntoView + use<> {
    let parts = shard.iter().enumerate().filter(|(_, count)| **count > 0).map(|(class, count)| {
        let name = data.classes.get(class).map_or("", String::as_str);
        let share = f64::from(*count) / f64::from(largest);
        let width = format!("width:{:.3}%", share * 100.0);
        let number = (share >= NUMBER_FITS).then_some(class + 1);
        view! { <i class=format!("hue-{}", class % HUES) style=width title=format!("{name}: {count}")>{number}</i> }
    });
    let total: u32 = shard.iter().sum();
    view! {
        <li data-testid="seat" data-pictures=total>
            <span class="seat-number">{seat + 1}</span>
            <span class="stack">{parts.collect_view()}</span>
            <span class="sub">{total}</span>
        </li>
    }
}

const HEIGHT: f32 = 210.0;
/// Widths in SVG units of a curve that fills the column and of one beside another.
const WIDE: f32 = 900.0;
const NARROW: f32 = 460.0;

fn frame(width: f32) -> Frame {
    Frame { left: 54.0, top: 26.0, width: width - 74.0, height: 150.0 }
}

/// The cohort's mean loss by round, with a dashed line at each change of defence. It may share the column with another
/// curve.
#[component]
pub fn LossCurve(feed: Feed, #[prop(into)] is_beside: Signal<bool>) -> impl IntoView {
    let losses = feed.part(|room| room.losses.iter().map(Point::from).collect::<Vec<_>>());
    let points = Memo::new(move |_| losses.get().unwrap_or_default());
    let last = move || points.with(|points| points.last().map(|point| point.value));
    view! {
        <section class="card curve" aria-label="Loss">
            <h2>
                "Loss "
                <b data-testid="loss" data-loss=move || last().map(|loss| loss.to_string())>
                    {move || last().map_or("–".to_owned(), |loss| format!("{loss:.3}"))}
                </b>
                <span class="sub">" mean over the cohort, by round; dashed: the defence changed"</span>
            </h2>
            <CurveChart points scale=Scale::Zero is_beside label="Loss by round"/>
        </section>
    }
}

/// A curve with its axes and a dashed line at each change of defence.
#[component]
pub fn CurveChart(
    #[prop(into)] points: Signal<Vec<Point>>,
    scale: Scale,
    /// Whether it shares the column with another curve.
    #[prop(into)]
    is_beside: Signal<bool>,
    /// A description for screen readers.
    label: &'static str,
) -> impl IntoView {
    let width = Memo::new(move |_| if is_beside.get() { NARROW } else { WIDE });
    let curve = Memo::new(move |_| points.with(|points| Curve::new(points, scale, frame(width.get()))));
    let box_of = move || format!("0 0 {} {HEIGHT}", width.get());
    view! {
        <svg viewBox=box_of role="img" aria-label=label>
            {move || {
                let (width, curve) = (width.get(), curve.get());
                let frame = frame(width);
                let bottom = frame.top + frame.height;
                let right = frame.left + frame.width;
                let values = curve.values.into_iter().map(|tick| {
                    view! {
                        <line class="grid" x1=frame.left x2=right y1=tick.at y2=tick.at></line>
                        <text class="tick" x=frame.left - 8.0 y=tick.at + 4.0 text-anchor="end">{tick.text}</text>
                    }
                });
                let rounds = curve.rounds.into_iter().map(|tick| {
                    view! { <text class="tick" x=tick.at y=bottom + 20.0 text-anchor="middle">{tick.text}</text> }
                });
                let changes: Vec<f32> = curve.defences.iter().map(|(at, _)| *at).collect();
                let changes = changes.into_iter().map(|at| {
                    view! { <line class="change" x1=at x2=at y1=frame.top - 4.0 y2=bottom></line> }
                });
                let short = |(at, defence): (f32, Defence)| Mark { at, text: defence.label() };
                let marks = curve.defences.into_iter().map(short).collect();
                let defences = labels(marks, width).into_iter().map(|label| {
                    let (shift, anchor) = if label.ends_there { (-4.0, "end") } else { (4.0, "start") };
                    view! {
                        <text class="change-text" x=label.at + shift y=frame.top - 10.0 text-anchor=anchor>{label.text}</text>
                    }
                });
                view! {
                    <line class="axis" x1=frame.left x2=right y1=bottom y2=bottom></line>
                    {values.collect_view()}
                    {rounds.collect_view()}
                    {changes.collect_view()}
                    {defences.collect_view()}
                    <path class="line" d=curve.path></path>
                    {curve.end.map(|(x, y)| view! { <circle class="end" cx=x cy=y r="5"></circle> })}
                }
            }}
        </svg>
    }
}

const COUNTS_WIDTH: f32 = 280.0;
const COUNTS_HEIGHT: f32 = 118.0;
const COUNTS_FRAME: Frame = Frame { left: 44.0, top: 8.0, width: 230.0, height: 84.0 };

/// One small chart for each parameter group. Empty until a round under the defence in force has closed.
#[component]
pub fn UpdateCounts(feed: Feed) -> impl IntoView {
    let counts = feed.optional(|room| room.update_counts.clone());
    let keys = Memo::new(move |_| {
        let keys = |counts: &UpdateCountsView| counts.groups.iter().map(|group| group.key.clone()).collect::<Vec<_>>();
        part(counts, keys)().unwrap_or_default()
    });
    view! {
        <details class="card counts" data-testid="update-counts" open hidden=move || keys.with(Vec::is_empty)>
            <summary>
                <h2>
                    "How often each parameter was updated"
                    <span class="sub">
                        " in "
                        {part(counts, |counts| format!("M = {} rounds with N = {} updates each", counts.rounds, logic::number(counts.updates)))}
                    </span>
                </h2>
            </summary>
            <p class="legend">
                <span><i class="swatch counted"></i>"share of parameters updated in f rounds"</span>
                <span><i class="swatch expected"></i>"expected: G(f)"</span>
                <span class="sub">
                    {part(counts, |counts| counts.sampled.map(|sampled| {
                        format!("counted on an evenly spaced sample of {} parameters", logic::count(sampled))
                    }))}
                </span>
            </p>
            <div class="histograms">
                <For each=move || keys.get() key=Clone::clone let:key>
                    <Group counts key/>
                </For>
            </div>
            <details class="formula">
                <summary>"The formula"</summary>
                <p>
                    "G(f) = C(M, f) (1 − R" <sup>"N"</sup> ")" <sup>"f"</sup> " (R" <sup>"N"</sup> ")" <sup>"M−f"</sup>
                </p>
                <p class="sub">
                    "A round leaves a parameter unchanged if all N tabs draw a zero for it, which happens with probability R"
                    <sup>"N"</sup>
                    ". Over M rounds, the number of updates f is therefore binomial; where N changed, each round counts with its own N. "
                    "(The papers print the exponent N(1−f), which is right only for M = 1.) Under a frozen mask, all tabs draw "
                    "the same zeros in every round: a share R is never updated, and the rest always is."
                </p>
            </details>
        </details>
    }
}

#[component]
fn Group(counts: Memo<Option<UpdateCountsView>>, key: String) -> impl IntoView {
    let name = key.clone();
    let group = Memo::new(move |_| {
        let find = |counts: &UpdateCountsView| counts.groups.iter().find(|group| group.key == name).cloned();
        counts.with(|counts| counts.as_ref().and_then(find))
    });
    let summary = part(group, summary);
    let bottom = COUNTS_FRAME.top + COUNTS_FRAME.height;
    let right = COUNTS_FRAME.left + COUNTS_FRAME.width;
    view! {
        <figure
            class="histogram"
            data-testid="update-counts-group"
            data-group=key
            data-never=part(group, |group| group.never.to_string())
            data-mean=part(group, |group| group.mean.to_string())
        >
            <figcaption>
                <b>{part(group, |group| group.group.clone())}</b>
                {part(group, |group| group.rate.map(|rate| format!(" R = {}", logic::number(rate))))}
            </figcaption>
            <svg viewBox=format!("0 0 {COUNTS_WIDTH} {COUNTS_HEIGHT}") role="img" aria-label=summary>
                {move || {
                    let drawn = part(group, |group| Histogram::new(&group.bins, COUNTS_FRAME))().unwrap_or_default();
                    let top = logic::percent(drawn.top as f32).replace(".0", "");
                    let bars = drawn.bars.into_iter().map(|bar| {
                        view! { <rect class="counted" x=bar.x y=bar.y width=bar.width height=bar.height></rect> }
                    });
                    let dots = drawn.expected.iter().map(|(x, y)| view! { <circle class="expected" cx=*x cy=*y r="3.5"></circle> });
                    let ticks = drawn.ticks.into_iter().map(|tick| {
                        view! { <text class="tick" x=tick.at y=bottom + 16.0 text-anchor="middle">{tick.text}</text> }
                    });
                    let dots = dots.collect_view();
                    view! {
                        <line class="grid" x1=COUNTS_FRAME.left x2=right y1=COUNTS_FRAME.top y2=COUNTS_FRAME.top></line>
                        <text class="tick" x=COUNTS_FRAME.left - 5.0 y=COUNTS_FRAME.top + 5.0 text-anchor="end">{top}</text>
                        {bars.collect_view()}
                        <line class="axis" x1=COUNTS_FRAME.left x2=right y1=bottom y2=bottom></line>
                        {dots}
                        {ticks.collect_view()}
                    }
                }}
            </svg>
            <p class="sub">{summary}</p>
        </figure>
    }
}

fn summary(group: &GroupCountsView) -> String {
    format!("never updated {} · mean {} rounds", logic::percent(group.never as f32), logic::number(group.mean))
}
