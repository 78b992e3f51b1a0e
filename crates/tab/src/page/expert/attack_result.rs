//! The result of one attacker, the progress of a search or of collected rounds, and the teacher's options.

use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence, Rule, TrainOn};
use unmask_wire::view::{AttackView, ClientState, Control, GatheredView, SearchState, SearchView};

use crate::page::{
    logic::{self, attacks},
    widgets::{
        feed::Feed,
        fields::{PassphraseField, SimilarityGauge},
        holds, optional, part,
        session::{Problem, Teacher},
    },
};

/// The attacker's name, its reconstruction, how close that is, and remarks.
#[component]
pub fn AttackResult(feed: Feed, teacher: Teacher, method: AttackMethod) -> impl IntoView {
    let result = feed.attack(method);
    let ssim = optional(result, |result| result.ssim);
    let psnr = optional(result, |result| result.psnr);
    let picture = optional(result, |result| result.picture.clone().map(String::from));
    let picture = Memo::new(move |_| picture());
    let search = optional(result, |result| result.search.clone());
    let search = Memo::new(move |_| search());
    let is_stale = Memo::new(move |_| result.with(|it| it.as_ref().is_some_and(|it| is_stale(feed, it.defence))));
    let is_running = holds(search, |search| search.state == SearchState::Running);
    let is_defended = holds(result, |result| result.defence != Defence::None);
    let is_mixed = feed.part(|room| {
        let is_shared = room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared);
        is_shared && (room.batch > 1 || room.rule != Rule::FedSgd)
    });
    let waiting = move || match (picture.with(Option::is_some), is_running()) {
        (true, _) if is_mixed.get() == Some(true) => "made from several pictures, so it cannot be compared with one",
        (true, _) => "waiting for the client’s score",
        (false, true) => "◌ searching",
        (false, false) => "✓ nothing recovered",
    };
    view! {
        <section
            class="result"
            class:stale=move || is_stale.get()
            data-testid="card"
            data-attack=method.name()
            data-round=part(result, |result| result.round)
            data-defence=part(result, |result| result.defence.to_string())
            data-client=part(result, |result| result.client.to_string())
            data-ssim=move || ssim().map(|ssim| ssim.to_string())
            data-psnr=move || psnr().map(|psnr| psnr.to_string())
            data-iteration=part(search, |search| search.iteration)
            data-state=part(search, |search| logic::key(search.state))
        >
            <h4 class="attacker">{method.attacker()}</h4>
            <SimilarityGauge
                ssim=Signal::derive(ssim)
                psnr=Signal::derive(psnr)
                below=Signal::derive(move || attacks::not_recognisable(is_defended(), is_running()))
                waiting=Signal::derive(move || waiting().to_owned())
            />
            <AttackPicture method result picture/>
            <ResultEnd feed teacher method result search is_stale/>
        </section>
    }
}

/// The reconstruction, or a note that there is none.
#[component]
fn AttackPicture(
    method: AttackMethod,
    result: Memo<Option<AttackView>>,
    /// The address of the result's picture.
    picture: Memo<Option<String>>,
) -> impl IntoView {
    let pictures = part(result, |result| result.pictures.max(1));
    view! {
        <div
            class="attack-picture"
            class:blank=move || picture.with(Option::is_none)
            class:batch=move || pictures().is_some_and(|pictures| pictures != 1)
        >
            <Show
                when=move || picture.with(Option::is_some)
                fallback=|| view! { <p class="nothing">"no picture"</p> }
            >
                <img
                    src=picture
                    alt=format!("Reconstruction by {}", method.title())
                    style=move || format!("aspect-ratio:{}/1", pictures().unwrap_or(1))
                    data-testid="reconstruction"
                />
            </Show>
        </div>
    }
}

/// How far the attack is, what the teacher may do about it, and what the result was made from.
#[component]
fn ResultEnd(
    feed: Feed,
    teacher: Teacher,
    method: AttackMethod,
    result: Memo<Option<AttackView>>,
    search: Memo<Option<SearchView>>,
    is_stale: Memo<bool>,
) -> impl IntoView {
    let gathered = optional(result, |result| result.gathered.clone());
    let gathered = Memo::new(move |_| gathered());
    let remark = optional(result, |result| result.remark.clone());
    let is_skipped = feed.part(move |room| room.budget.skipped.iter().any(|name| name == method.name()));
    view! {
        <div class="result-end">
            <Show when=move || search.with(Option::is_some)>
                <SearchProgress search/>
            </Show>
            <Show when=move || gathered.with(Option::is_some)>
                <GatheredRounds gathered teacher/>
            </Show>
            <Show when=move || method == AttackMethod::Colluder && teacher.is_here()>
                <Collude feed teacher/>
            </Show>
            <StaleNote is_stale/>
            <p class="remark" data-testid="remark" hidden=move || remark().is_none()>{remark}</p>
            <p class="sub">
                {part(result, |result| {
                    format!(
                        "{} · round {} · {} · {}",
                        result.nickname,
                        result.round,
                        result.defence.phrase(),
                        logic::duration(result.seconds * 1000.0),
                    )
                })}
                <b hidden=move || is_skipped.get() != Some(true)>" · no time for the newest update"</b>
            </p>
        </div>
    }
}

/// Whether a result under `defence` no longer applies, since another defence is in force.
pub fn is_stale(feed: Feed, defence: Defence) -> bool {
    feed.room.with(|room| room.as_ref().is_some_and(|room| room.defence != defence))
}

/// A note that a result is out of date; the result is dimmed.
#[component]
pub fn StaleNote(#[prop(into)] is_stale: Signal<bool>) -> impl IntoView {
    view! {
        <p class="stale-note" data-testid="stale" hidden=move || !is_stale.get()>
            "◷ Made under an older defence; it says nothing about the one in force."
        </p>
    }
}

/// A card that offers a search while there is none.
#[component]
pub fn SearchOffer(feed: Feed, teacher: Teacher) -> impl IntoView {
    let is_asked = feed.part(|room| room.search == Some(true));
    view! {
        <article class="card family offer">
            <header class="family-head">
                <div>
                    <h3>"Search through the model"</h3>
                    <p class="sentence">
                        {move || match is_asked.get() {
                            Some(true) => "The search starts with the next update of the client under attack.",
                            _ => {
                                "A patient attacker tries thousands of pictures until one gives the update that came. \
                                 The rounds go on meanwhile."
                            }
                        }}
                    </p>
                </div>
                <SearchButton feed teacher/>
            </header>
        </article>
    }
}

/// Starts and stops the search. Only for the teacher, on a relay that can search.
#[component]
pub fn SearchButton(feed: Feed, teacher: Teacher) -> impl IntoView {
    let search = feed.optional(|room| room.search);
    // The client whose update was searched may have left; then there is nothing to stop.
    let has_target = feed.part(|room| {
        room.clients.iter().any(|client| Some(client.id) == room.target && client.state != ClientState::Gone)
    });
    let is_on = move || search.get() == Some(true) && has_target.get() == Some(true);
    let problem = RwSignal::new(None);
    view! {
        <Show when=move || teacher.is_here() && search.get().is_some()>
            <div class="hand">
                <button
                    type="button"
                    class="button"
                    class:accent=move || !is_on()
                    data-testid="search"
                    aria-pressed=move || is_on().to_string()
                    on:click=move |_| teacher.ask(Control::Search { on: !is_on() }, problem)
                >
                    {move || if is_on() { "■ Stop the search" } else { "▶ Start the search" }}
                </button>
                <Problem problem/>
            </div>
        </Show>
    }
}

/// The progress of a search and the objective that it still has to reduce.
#[component]
pub fn SearchProgress(search: Memo<Option<SearchView>>) -> impl IntoView {
    let width = part(search, |search| {
        let share = search.iteration as f64 / search.iterations.max(1) as f64;
        format!("width:{:.1}%", 100.0 * share.min(1.0))
    });
    view! {
        <div class="progress" data-state=part(search, |search| logic::key(search.state))>
            <div class="meter" aria-hidden="true"><span class="meter-fill" style=width></span></div>
            <p class="spread">
                <b>{part(search, |search| attacks::search_state(search.state))}</b>
                <span class="sub">
                    {part(search, |search| {
                        let (done, all) = (logic::count(search.iteration), logic::count(search.iterations));
                        format!("step {done} of {all} · mismatch {}", logic::number(search.objective))
                    })}
                </span>
            </p>
        </div>
    }
}

/// How much is still hidden compared with chance, and how close the attack is to a least-squares solution.
#[component]
pub fn GatheredRounds(gathered: Memo<Option<GatheredView>>, teacher: Teacher) -> impl IntoView {
    let has_drifted = holds(gathered, |gathered| gathered.has_drifted);
    let percent = |share: f64| format!("{:.1}%", (share * 100.0).clamp(0.0, 100.0));
    let hidden = part(gathered, move |gathered| format!("width:{}", percent(gathered.hidden)));
    let expected = part(gathered, move |gathered| format!("left:{}", percent(gathered.expected_hidden)));
    let problem = RwSignal::new(None);
    view! {
        <div class="gathered" data-testid="gathered" data-rounds=part(gathered, |gathered| gathered.rounds)>
            <p><b>{part(gathered, attacks::hidden_entries)}</b></p>
            <div class="meter" aria-hidden="true">
                <span class="meter-fill" style=hidden></span>
                <span class="meter-mark" style=expected></span>
            </div>
            <p class="sub">{part(gathered, attacks::equations)}</p>
            <p class="remark" data-testid="drifted" hidden=move || !has_drifted()>
                "The model has moved too far since the first of these rounds. Another round would do more harm than good, so none is added."
            </p>
            <Show when=move || teacher.is_here()>
                <div class="hand">
                    <button
                        type="button"
                        class="button small"
                        class:accent=has_drifted
                        data-testid="gather-anew"
                        on:click=move |_| teacher.ask(Control::GatherAnew, problem)
                    >
                        "Start over"
                    </button>
                    <Problem problem/>
                </div>
            </Show>
        </div>
    }
}

/// A passphrase field, or a button to forget the key. The passphrase goes to the relay once and is not stored.
#[component]
pub fn Collude(feed: Feed, teacher: Teacher) -> impl IntoView {
    let has_key = feed.part(|room| room.has_key);
    let passphrase = RwSignal::new(String::new());
    let problem = RwSignal::new(None);
    let is_empty = move || passphrase.with(|passphrase| passphrase.trim().is_empty());
    let give = move || {
        if !is_empty() {
            let typed = std::mem::take(&mut *passphrase.write());
            teacher.ask(Control::Collude { passphrase: Some(typed) }, problem);
        }
    };
    view! {
        <Show
            when=move || has_key.get() == Some(true)
            fallback=move || {
                view! {
                    <form
                        class="field collude"
                        on:submit=move |event| {
                            event.prevent_default();
                            give();
                        }
                    >
                        <label for="collude-passphrase">"Play the client that gives the key away"</label>
                        <PassphraseField id="collude-passphrase" value=passphrase/>
                        <button type="submit" class="button" data-testid="collude" disabled=is_empty>"Give the relay the key"</button>
                    </form>
                }
            }
        >
            <p class="hand">
                <b>"The relay has the key."</b>
                <button
                    type="button"
                    class="button small"
                    data-testid="forget-key"
                    on:click=move |_| teacher.ask(Control::Collude { passphrase: None }, problem)
                >
                    "Forget the key"
                </button>
            </p>
        </Show>
        <Problem problem/>
    }
}
