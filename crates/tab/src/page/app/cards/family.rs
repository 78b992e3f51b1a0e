//! Attackers who solve the same problem, side by side.

use leptos::prelude::*;

use super::{attack, half::Half, how::How, search::SearchButton, text};
use crate::page::{
    app::{feed::Feed, projector::Teacher},
    families::Family,
};

/// One card with a half for each attack.
#[component]
pub fn FamilyCard(
    feed: Feed,
    teacher: Teacher,
    /// All cards, of which this is one.
    cards: Memo<Vec<Family>>,
    /// The card from which the search is started and stopped.
    searched: Memo<Option<String>>,
    /// The family's name.
    name: String,
    /// The family's name for people.
    title: String,
) -> impl IntoView {
    let attacks = Memo::new({
        let name = name.clone();
        move |_| {
            cards.with(|cards| {
                cards.iter().find(|card| card.name == name).map(|card| card.attacks.clone()).unwrap_or_default()
            })
        }
    });
    let has_search = Memo::new({
        let name = name.clone();
        move |_| searched.with(|searched| searched.as_ref() == Some(&name))
    });
    let sentence = move || {
        let first = attacks.with(|attacks| attacks.first().cloned())?;
        feed.room.with(|room| {
            let attacks = &room.as_ref()?.attacks;
            attacks.iter().find(|attack| attack.attack == first).map(|attack| attack.how.sentence.clone())
        })
    };
    let sentence = Memo::new(move |_| sentence());
    view! {
        <article class="card family" class:several=move || attacks.with(|attacks| attacks.len() > 1) data-testid="family" data-family=name>
            <header class="family-head">
                <div>
                    <h3>{title}</h3>
                    <p class="sentence">{move || sentence.get()}</p>
                </div>
                <Show when=move || has_search.get()>
                    <SearchButton feed teacher/>
                </Show>
            </header>
            <div class="halves">
                <For each=move || attacks.get() key=Clone::clone let:name>
                    <Half feed teacher name/>
                </For>
            </div>
            <details class="how">
                <summary>"How does this work?"</summary>
                <div class="explanations">
                    <For each=move || attacks.get() key=Clone::clone let:name>
                        {
                            let result = attack(feed, name);
                            let how = Memo::new(move |_| result.with(|result| result.as_ref().map(|result| result.how.clone())));
                            view! { <How how title=Signal::derive(text(result, |result| result.title.clone()))/> }
                        }
                    </For>
                </div>
            </details>
        </article>
    }
}
