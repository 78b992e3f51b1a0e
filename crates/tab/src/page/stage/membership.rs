//! Scene 8: was a photograph in the update? A scale gives the answer.

use gloo_file::{Blob, File};
use leptos::prelude::*;
use unmask_core::{ClientId, MembershipVerdict};
use unmask_lesson::Beat;
use unmask_wire::view::{ClientView, Control, MembershipView};
use unmask_words::{say, shown_nickname};
use wasm_bindgen_futures::spawn_local;

use super::{
    parts::Stage,
    vote::{VoteLine, Votes},
};
use crate::page::{
    logic::{attacks, chart::Residuals, names::SAMPLES},
    widgets::{
        api, part,
        picture::{self, FileButton},
    },
};

const WIDTH: f32 = 720.0;
const HEIGHT: f32 = 240.0;
const LEFT: f32 = 60.0;
const SPAN: f32 = WIDTH - 2.0 * LEFT;
/// Vertical positions of the candidate, of similar pictures and of the axis.
const ROWS: [f32; 3] = [50.0, 110.0, 150.0];

/// A photograph and the class's vote on whether the attacked client used it; then the answer, and the photograph's
/// position among altered copies of itself.
#[component]
pub fn Membership(stage: Stage) -> impl IntoView {
    let membership = stage.feed.optional(|room| room.membership.clone());
    let picture = Memo::new(move |_| membership.with(|it| it.as_ref().map(|it| it.picture.to_string())));
    let is_asked = Memo::new(move |_| stage.place.get().beat() == Beat::AskUsed);
    let verdict = move || membership.with(|it| it.as_ref()?.verdict.map(|verdict| verdict.to_string()));
    let target = stage.feed.optional(|room| {
        let target = room.clients.iter().find(|client| Some(client.id) == room.target)?;
        Some(shown_nickname(&target.nickname))
    });
    let title = move || target.get().map_or(say::member::photograph().to_owned(), say::member::did);
    view! {
        <div class="was-it" data-testid="was-it" data-verdict=move || if is_asked.get() { None } else { verdict() }>
            <figure class="shot">
                <figcaption>{title}</figcaption>
                <Show when=move || picture.with(Option::is_some) fallback=|| view! { <p class="shot-empty" role="status">{say::empty::no_candidate()}</p> }>
                    <img src=move || picture.get() alt=say::member::seen()/>
                </Show>
            </figure>
            <Show when=move || !is_asked.get() fallback=move || view! { <Votes stage/> }>
                <Scale membership/>
            </Show>
            <Show when=move || stage.place.get().beat() == Beat::TellUsed fallback=move || view! { <Candidates stage/> }>
                <VoteLine stage/>
            </Show>
        </div>
    }
}

/// The answer, and where the photograph is between what was in the update and what was not.
#[component]
fn Scale(membership: Memo<Option<MembershipView>>) -> impl IntoView {
    let [own, others, axis] = ROWS;
    let drawn = part(membership, |membership| Residuals::new(membership, LEFT, SPAN));
    let is_copy = move || {
        let is_one = |it: &MembershipView| it.verdict == Some(MembershipVerdict::Stranger) && !it.is_exact;
        membership.with(|it| it.as_ref().is_some_and(is_one))
    };
    view! {
        <div class="scale" data-copy=move || is_copy().to_string()>
            <p class="scale-verdict" role="status" data-testid="scale-verdict">{part(membership, attacks::membership)}</p>
            <p hidden=move || !is_copy()>{say::member::no_copy_hint()}</p>
            <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label=say::member::scale()>
                {move || {
                    let Residuals { candidate, interval, distractors, ticks } = drawn().unwrap_or_default();
                    let ends = ticks.first().zip(ticks.last()).map(|(right, left)| [left.clone(), right.clone()]);
                    view! {
                        <line class="axis" x1=LEFT x2=LEFT + SPAN y1=axis y2=axis></line>
                        {ends.into_iter().flatten().map(|tick| view! { <text class="scale-tick" x=tick.at y=axis + 34.0 text-anchor="middle">{tick.text}</text> }).collect_view()}
                        {distractors.into_iter().map(|at| view! { <circle class="distractor" cx=at cy=others r="9"></circle> }).collect_view()}
                        {interval.map(|(from, to)| view! { <line class="interval" x1=from x2=to y1=own y2=own></line> })}
                        {candidate.map(|at| view! { <circle class="own" cx=at cy=own r="14"></circle> })}
                    }
                }}
                <text class="scale-end" x=LEFT y=HEIGHT - 12.0>{say::member::was_in()}</text>
                <text class="scale-end" x=LEFT + SPAN y=HEIGHT - 12.0 text-anchor="end">{say::member::was_not()}</text>
            </svg>
            <p class="scale-legend">
                <span class="of-class">{say::member::this()}</span>
                <span class="of-curve">{say::member::altered()}</span>
            </p>
        </div>
    }
}

/// For the presenter: photographs to test instead, namely the volunteers' shown pictures, the samples, or a file.
#[component]
fn Candidates(stage: Stage) -> impl IntoView {
    let shown = stage.feed.part(|room| {
        let volunteers = room.clients.iter().filter(|client| client.is_volunteer());
        let shown = |client: &ClientView| -> Option<(ClientId, String, String)> {
            Some((client.id, shown_nickname(&client.nickname), client.original.clone()?.into()))
        };
        volunteers.filter_map(shown).take(4).collect::<Vec<_>>()
    });
    let shown_button = move |(client, name, source): (ClientId, String, String)| {
        view! {
            <button type="button" class="candidate-key" data-testid="ask-about-client" data-client=client.0 title=name.clone() on:click=move |_| stage.teacher.send(Control::TestPicture { client })>
                <img src=source alt=name.clone()/>
            </button>
        }
    };
    let samples = SAMPLES.iter().take(4).map(|sample| (sample.title().to_owned(), format!("samples/{}", sample.file)));
    let samples: Vec<(String, String)> = samples.collect();
    let ask = move |name: String, address: String| {
        spawn_local(async move {
            match api::file(&address).await {
                Ok(file) => propose(stage, name, file).await,
                Err(problem) => stage.teacher.problem.set(Some(problem)),
            }
        });
    };
    let button = move |(name, address): (String, String)| {
        let source = address.clone();
        view! {
            <button type="button" class="candidate-key" data-testid="ask-about" data-name=name.clone() title=name.clone() on:click=move |_| ask(name.clone(), address.clone())>
                <img src=source alt=name.clone()/>
            </button>
        }
    };
    view! {
        <div class="candidates" hidden=move || !stage.is_presenting.get()>
            {move || shown.get().unwrap_or_default().into_iter().map(shown_button).collect_view()}
            {samples.into_iter().map(button).collect_view()}
            <FileButton
                title=say::member::file()
                testid="stage-candidate"
                on_file=move |file: File| {
                    let name = file.name();
                    spawn_local(propose(stage, name, file.into()));
                }
            />
            <button type="button" class="key" data-testid="stage-forget" on:click=move |_| stage.teacher.send(Control::ForgetCandidate)>{say::member::forget()}</button>
        </div>
    }
}

async fn propose(stage: Stage, name: String, file: Blob) {
    let asked = async {
        let picture = picture::from_blob(&name, &file).await?;
        api::candidate(&picture::png(&picture).await?).await
    };
    stage.teacher.problem.set(stage.teacher.checked(asked.await).err());
}
