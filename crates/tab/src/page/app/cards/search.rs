//! The search through the model: its button, and how far it is.

use leptos::prelude::*;
use unmask_wire::view::{Control, SearchView};

use crate::page::{
    app::{
        feed::Feed,
        signals::part,
        teacher::{Problem, Teacher},
    },
    words,
};

/// The card that offers a search as long as there is none.
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

/// Starts and stops the search; only there for the teacher, on a relay that can search.
#[component]
pub fn SearchButton(feed: Feed, teacher: Teacher) -> impl IntoView {
    let search = feed.optional(|room| room.search);
    let is_on = move || search.get() == Some(true);
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

/// How far a search is, and what is left to be made small.
#[component]
pub fn SearchProgress(search: Memo<Option<SearchView>>) -> impl IntoView {
    let width = part(search, |search| {
        let share = search.iteration as f64 / search.iterations.max(1) as f64;
        format!("width:{:.1}%", 100.0 * share.min(1.0))
    });
    view! {
        <div class="progress" data-state=part(search, |search| words::key(search.state))>
            <div class="meter" aria-hidden="true"><span class="meter-fill" style=width></span></div>
            <p class="spread">
                <b>{part(search, |search| words::search_state(search.state))}</b>
                <span class="sub">
                    {part(search, |search| {
                        let (done, all) = (words::count(search.iteration), words::count(search.iterations));
                        format!("step {done} of {all} · mismatch {}", words::number(search.objective))
                    })}
                </span>
            </p>
        </div>
    }
}
