//! Results of the attacks: one card for each family, one for labels and one for membership.

use gloo_file::File;
use leptos::prelude::*;
use unmask_core::{AttackFamily, AttackMethod, Defence, TrainOn};
use unmask_wire::view::{Control, MembershipView};
use wasm_bindgen_futures::spawn_local;
use web_sys::DragEvent;

use super::attack_result::{AttackResult, SearchButton, SearchOffer, StaleNote, is_stale};
use crate::page::{
    logic::{
        self, attacks,
        chart::Residuals,
        drafts::{AttackGroup, by_family, first_search, read_budget},
        names,
    },
    widgets::{
        api,
        feed::Feed,
        fields::{Bar, Bars, NumberField},
        holds, optional, part,
        picture::{self, FileButton, dropped_file, keep_page},
        session::{Problem, Teacher},
    },
};

#[component]
pub fn Cards(feed: Feed, teacher: Teacher) -> impl IntoView {
    let groups = feed.part(|room| by_family(&room.attacks));
    let groups = Memo::new(move |_| groups.get().unwrap_or_default());
    let searched = Memo::new(move |_| groups.with(|groups| first_search(groups)));
    let can_search = feed.part(|room| room.search.is_some());
    let target = feed.optional(|room| {
        let target = room.target?;
        room.clients.iter().find(|client| client.id == target).map(|client| client.nickname.clone())
    });
    view! {
        <section class="attacks" aria-label="Attacks">
            <div class="attacks-head">
                <h2 class="attacks-title">
                    "What the relay sees"
                    <span hidden=move || target.with(Option::is_none)>" of " <b data-testid="target">{target}</b></span>
                </h2>
                <Budget feed teacher/>
            </div>
            <div class="cards">
                <For each=move || groups.get() key=|group| group.family let:group>
                    <FamilyCard feed teacher groups searched family=group.family/>
                </For>
                <p class="card empty" hidden=move || !groups.with(Vec::is_empty)>
                    "After each round the relay tries to reconstruct the picture of the client under attack from its update. The results appear here."
                </p>
                <Show when=move || teacher.is_here() && can_search.get() == Some(true) && searched.with(Option::is_none)>
                    <SearchOffer feed teacher/>
                </Show>
                <div class="findings">
                    <SumCard feed/>
                    <LabelCard feed/>
                    <MembershipCard feed teacher/>
                </div>
            </div>
        </section>
    }
}

/// One card with the results of all attacks of a family.
#[component]
pub fn FamilyCard(
    feed: Feed,
    teacher: Teacher,
    /// All groups; this card shows one of them.
    groups: Memo<Vec<AttackGroup>>,
    /// The family whose card has the search button.
    searched: Memo<Option<AttackFamily>>,
    family: AttackFamily,
) -> impl IntoView {
    let attacks = Memo::new(move |_| -> Vec<AttackMethod> {
        groups.with(|groups| {
            let group = groups.iter().find(|group| group.family == family);
            group.map(|group| group.attacks.clone()).unwrap_or_default()
        })
    });
    // Without a defence both attackers see the same.
    let is_open = feed.part(move |room| {
        let mut results = room.attacks.iter().filter(|result| result.family == family).peekable();
        results.peek().is_some() && results.all(|result| result.defence == Defence::None)
    });
    let shown = Memo::new(move |_| {
        let mut shown = attacks.get();
        if is_open.get() == Some(true) {
            shown.truncate(1);
        }
        shown
    });
    let has_search = Memo::new(move |_| searched.get() == Some(family));
    let sentence = feed.optional(move |room| {
        let first = attacks.with(|attacks| attacks.first().copied())?;
        room.attacks.iter().find(|attack| attack.attack == first).map(|attack| attack.explanation.sentence.clone())
    });
    view! {
        <article class="card family" class:several=move || shown.with(|shown| shown.len() > 1) data-testid="family" data-family=family.name()>
            <header class="family-head">
                <div>
                    <h3>{family.title()}</h3>
                    <p class="sentence">{sentence}</p>
                </div>
                <Show when=move || has_search.get()>
                    <SearchButton feed teacher/>
                </Show>
            </header>
            <div class="results">
                <For each=move || shown.get() key=|method| *method let:method>
                    <AttackResult feed teacher method/>
                </For>
            </div>
            <How feed shown/>
        </article>
    }
}

/// Folded away: how each attack of the family works.
#[component]
fn How(feed: Feed, shown: Memo<Vec<AttackMethod>>) -> impl IntoView {
    let explanation = move |method| {
        let how = part(feed.attack(method), |result| result.explanation.clone());
        view! { <Explanation how=Memo::new(move |_| how()) title=method.title()/> }
    };
    view! {
        <details class="how">
            <summary>"How does this work?"</summary>
            <div class="explanations">
                <For each=move || shown.get() key=|method| *method let:method>{explanation(method)}</For>
            </div>
        </details>
    }
}

/// A sentence, the equation, its limits and its symbols.
#[component]
pub fn Explanation(how: Memo<Option<unmask_core::Explanation>>, title: &'static str) -> impl IntoView {
    let symbols = part(how, |how| how.symbols.clone());
    view! {
        <section class="explanation" data-testid="how">
            <h4>{title}</h4>
            <p>{part(how, |how| how.sentence.clone())}</p>
            <p class="equation">{part(how, |how| how.equation.clone())}</p>
            <p class="sub">{part(how, |how| how.limits.clone())}</p>
            <table>
                <thead>
                    <tr>
                        <th scope="col">"symbol"</th>
                        <th scope="col">"meaning"</th>
                        <th scope="col">"shape"</th>
                    </tr>
                </thead>
                <tbody>
                    <For each=move || symbols().unwrap_or_default() key=Clone::clone let:symbol>
                        {
                            let [name, meaning, shape] = symbol;
                            view! { <tr><th scope="row">{name}</th><td>{meaning}</td><td>{shape}</td></tr> }
                        }
                    </For>
                </tbody>
            </table>
        </section>
    }
}

/// The seconds per round, set by the teacher, the time spent, and the attacks skipped.
#[component]
pub fn Budget(feed: Feed, teacher: Teacher) -> impl IntoView {
    let seconds = feed.part(|room| room.budget.seconds);
    let budget = feed.part(|room| room.budget.clone());
    let typed = RwSignal::new(String::new());
    teacher.follow(seconds, move |seconds| typed.set(logic::number(seconds)));
    view! {
        <div class="budget" data-testid="budget" data-seconds=part(seconds, f64::to_string)>
            <Show when=move || teacher.is_here()>
                <NumberField
                    label="attack time, seconds per round"
                    title="time that the attacks may take in a round; training never waits for them"
                    testid="attack-budget"
                    value=typed
                    on_change=move |text: String| match read_budget(&text) {
                        Ok(seconds) => teacher.send(Control::AttackBudget { seconds }),
                        Err(problem) => teacher.problem.set(Some(problem)),
                    }
                />
            </Show>
            <p class="sub">
                {part(budget, attacks::attack_time_spent)}
                <b data-testid="skipped">
                    {optional(budget, |budget| attacks::attacks_skipped(budget).map(|skipped| format!(" · {skipped}")))}
                </b>
            </p>
        </div>
    }
}

/// What the sum of a few updates gives away, in the scene that adds them.
#[component]
fn SumCard(feed: Feed) -> impl IntoView {
    let sum = feed.optional(|room| room.sum.clone());
    let pictures =
        part(sum, |sum| sum.pictures.iter().flatten().map(|picture| picture.to_string()).collect::<Vec<_>>());
    let remark = optional(sum, |sum| sum.remark.clone());
    let tried = optional(sum, |sum| sum.tried.zip(sum.least_epsilon).map(attacks::tried_noise));
    let mixture = optional(sum, |sum| sum.mixture.as_ref().map(|picture| picture.to_string()));
    let threat = optional(sum, |sum| (!sum.threat.is_honest()).then(|| sum.threat.title()));
    let score = optional(sum, |sum| sum.score.map(attacks::score_of_sum));
    view! {
        <article class="card finding" data-testid="sum-card" hidden=move || sum.with(Option::is_none)>
            <h3>{move || threat().unwrap_or("What the sum gives away")}</h3>
            <p>{part(sum, |sum| format!("{} updates added, {} pictures certain", sum.clients.len(), sum.certain))}</p>
            <p>{move || pictures().unwrap_or_default().into_iter().map(|picture| view! { <img src=picture alt="from the sum"/> }).collect_view()}</p>
            <p hidden=move || mixture().is_none()>
                "What an attack for one picture sees: "
                <img src=mixture alt="the sum as one picture" data-testid="sum-mixture"/>
            </p>
            <p data-testid="sum-score" hidden=move || score().is_none()>{score}</p>
            <p data-testid="tried" hidden=move || tried().is_none()>{tried}</p>
            <p class="remark" hidden=move || remark().is_none()>{remark}</p>
        </article>
    }
}

/// The evidence for each class; hidden until an update has been read.
#[component]
pub fn LabelCard(feed: Feed) -> impl IntoView {
    let label = feed.optional(|room| room.label.clone());
    let names = feed.part(names::classes_in_force);
    let names = Memo::new(move |_| names.get().unwrap_or_default());
    let is_shared = feed.part(|room| room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared));
    let headline = optional(label, move |label| names.with(|names| attacks::labels(label, names)));
    let remark = optional(label, |label| label.remark.clone());
    let is_old = Memo::new(move |_| label.with(|it| it.as_ref().is_some_and(|it| is_stale(feed, it.defence))));
    let bars = part(label, move |label| {
        let bar = |(place, share): (usize, &f64)| Bar {
            name: names.with(|names| names::class_name(names, place)),
            share: *share,
            text: logic::percent(*share as f32),
            is_found: label.counts.get(place).is_some_and(|count| *count > 0),
        };
        label.shares.iter().enumerate().map(bar).collect::<Vec<_>>()
    });
    view! {
        <article
            class="card finding"
            class:stale=move || is_old.get()
            data-testid="label"
            data-labels=headline
            data-round=part(label, |label| label.round)
            hidden=move || label.with(Option::is_none)
        >
            <h3>{move || if is_shared.get() == Some(true) { "The classes of its pictures" } else { "The label of its picture" }}</h3>
            <p class="verdict-line">{move || headline().unwrap_or_else(|| "✓ the label does not show".to_owned())}</p>
            <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="label-class"/>
            <StaleNote is_stale=is_old/>
            <p class="remark" hidden=move || remark().is_none()>{remark}</p>
            <p class="sub">
                "Read from the gradient of the last layer. "
                {part(label, |label| format!("{} · round {} · {}", label.nickname, label.round, label.defence.phrase()))}
            </p>
        </article>
    }
}

/// Tests whether the update was made from a photograph. Only the teacher can start a test; others see its result.
#[component]
pub fn MembershipCard(feed: Feed, teacher: Teacher) -> impl IntoView {
    let membership = feed.optional(|room| room.membership.clone());
    let is_over = RwSignal::new(false);
    let is_busy = RwSignal::new(false);
    let problem = RwSignal::new(None);
    let take = move |file: Option<File>| {
        let Some(file) = file.filter(|_| untrack(|| teacher.is_here())) else { return };
        is_busy.set(true);
        spawn_local(async move {
            let sent = async {
                let picture = picture::from_blob(&file.name(), &file).await?;
                teacher.checked(api::candidate(&picture::png(&picture).await?).await)
            };
            problem.set(sent.await.err());
            is_busy.set(false);
        });
    };
    let on_file = Callback::new(move |file| take(Some(file)));
    keep_page();
    let has_candidate = move || membership.with(Option::is_some);
    let is_old = Memo::new(move |_| {
        membership.with(|it| it.as_ref().is_some_and(|it| it.round > 0 && is_stale(feed, it.defence)))
    });
    let has_residual = holds(membership, |membership| membership.residual.is_some());
    view! {
        <article
            class="card finding membership"
            class:stale=move || is_old.get()
            class:over=move || is_over.get() && teacher.is_here()
            data-testid="membership"
            data-verdict=optional(membership, |membership| membership.verdict.map(|verdict| verdict.to_string()))
            data-round=part(membership, |membership| membership.round)
            hidden=move || !teacher.is_here() && !has_candidate()
            on:dragover=move |_| is_over.set(true)
            on:dragleave=move |_| is_over.set(false)
            on:drop=move |event: DragEvent| {
                event.prevent_default();
                is_over.set(false);
                take(dropped_file(&event));
            }
        >
            <h3>"Was this photograph in the update?"</h3>
            <Show when=has_candidate>
                <Candidate membership/>
            </Show>
            <StaleNote is_stale=is_old/>
            <Show when=has_residual>
                <ResidualPlot membership/>
            </Show>
            <Show when=move || teacher.is_here()>
                <CandidateChoice teacher membership is_busy problem on_file/>
            </Show>
        </article>
    }
}

/// The photograph as the model sees it, and the verdict.
#[component]
fn Candidate(membership: Memo<Option<MembershipView>>) -> impl IntoView {
    view! {
        <div class="candidate">
            <img
                // Recordings leave the photograph out.
                hidden=holds(membership, |membership| membership.picture.is_empty())
                src=part(membership, |membership| membership.picture.to_string())
                alt="The photograph as the model sees it"/>
            <div>
                <p class="verdict-line" role="status">
                    {part(membership, attacks::membership)}
                </p>
                <p>{optional(membership, |membership| membership.remark.clone())}</p>
                <p class="sub">
                    {optional(membership, |membership| {
                        let MembershipView { nickname, round, defence, .. } = membership;
                        (*round > 0).then(|| format!("{nickname} · round {round} · {}", defence.phrase()))
                    })}
                </p>
            </div>
        </div>
    }
}

/// For the teacher: choose a photograph, or discard the one tested.
#[component]
fn CandidateChoice(
    teacher: Teacher,
    membership: Memo<Option<MembershipView>>,
    /// Whether a photograph is being sent.
    is_busy: RwSignal<bool>,
    problem: RwSignal<Option<String>>,
    on_file: Callback<File>,
) -> impl IntoView {
    let has_candidate = move || membership.with(Option::is_some);
    view! {
        <div class="drop">
            <p>
                {move || if is_busy.get() { "Sending the photograph…" } else { "Drop a photograph on this card, or" }}
            </p>
            <FileButton title="choose a file" testid="candidate-file" on_file/>
            <button
                type="button"
                class="button"
                data-testid="forget-candidate"
                hidden=move || !has_candidate()
                on:click=move |_| teacher.ask(Control::ForgetCandidate, problem)
            >
                "Forget it"
            </button>
        </div>
        <p class="hint" hidden=has_candidate>
            "The relay compares it with the newest update. Anyone who has a photograph of someone can make this guess."
        </p>
        <Problem problem/>
    }
}

const WIDTH: f32 = 440.0;
const HEIGHT: f32 = 128.0;
const LEFT: f32 = 24.0;
const SPAN: f32 = WIDTH - 2.0 * LEFT;
/// Vertical positions of the candidate, of similar pictures and of the axis.
const ROWS: [f32; 3] = [30.0, 70.0, 94.0];

/// One row for the candidate with its interval, one for pictures that were not in the update.
#[component]
pub fn ResidualPlot(membership: Memo<Option<MembershipView>>) -> impl IntoView {
    let [own, others, axis] = ROWS;
    let drawn = part(membership, |membership| Residuals::new(membership, LEFT, SPAN));
    view! {
        <figure class="residuals">
            <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label="The share of each picture outside the span of the update’s pictures, on a logarithmic axis">
                {move || {
                    let Residuals { candidate, interval, distractors, ticks } = drawn().unwrap_or_default();
                    view! {
                        {ticks
                            .into_iter()
                            .map(|tick| {
                                view! {
                                    <line class="grid" x1=tick.at x2=tick.at y1="12" y2=axis></line>
                                    <text class="tick" x=tick.at y=axis + 18.0 text-anchor="middle">{tick.text}</text>
                                }
                            })
                            .collect_view()}
                        <line class="axis" x1=LEFT x2=LEFT + SPAN y1=axis y2=axis></line>
                        {distractors
                            .into_iter()
                            .map(|at| view! { <circle class="distractor" cx=at cy=others r="5"></circle> })
                            .collect_view()}
                        {interval.map(|(from, to)| view! { <line class="interval" x1=from x2=to y1=own y2=own></line> })}
                        {candidate.map(|at| view! { <circle class="own" cx=at cy=own r="8"></circle> })}
                    }
                }}
            </svg>
            <figcaption class="legend">
                <span><i class="swatch own"></i>"this photograph"</span>
                <span><i class="swatch distractor"></i>"altered copies of it"</span>
                <span class="long">"the share that does not fit the pictures in the update"</span>
            </figcaption>
        </figure>
    }
}
