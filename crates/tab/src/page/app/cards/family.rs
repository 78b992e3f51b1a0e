//! Attackers who solve the same problem, side by side.

use leptos::prelude::*;
use unmask_core::AttackFamily;

use super::{attack, half::Half, how::How, search::SearchButton, text};
use crate::page::{
    app::{feed::Feed, projector::Teacher},
    families::Card,
};

/// One card with a half for each attack.
#[component]
pub fn FamilyCard(
    feed: Feed,
    teacher: Teacher,
    /// All cards, of which this is one.
    cards: Memo<Vec<Card>>,
    /// The card from which the search is started and stopped.
    searched: Memo<Option<AttackFamily>>,
    /// What its attacks have in common.
    family: AttackFamily,
) -> impl IntoView {
    let attacks = Memo::new(move |_| {
        cards.with(|cards| {
            cards.iter().find(|card| card.family == family).map(|card| card.attacks.clone()).unwrap_or_default()
        })
    });
    let has_search = Memo::new(move |_| searched.get() == Some(family));
    let sentence = move || {
        let first = attacks.with(|attacks| attacks.first().copied())?;
        feed.room.with(|room| {
            let attacks = &room.as_ref()?.attacks;
            attacks.iter().find(|attack| attack.attack == first).map(|attack| attack.explanation.sentence.clone())
        })
    };
    let sentence = Memo::new(move |_| sentence());
    view! {
        <article class="card family" class:several=move || attacks.with(|attacks| attacks.len() > 1) data-testid="family" data-family=family.name()>
            <header class="family-head">
                <div>
                    <h3>{family.title()}</h3>
                    <p class="sentence">{move || sentence.get()}</p>
                </div>
                <Show when=move || has_search.get()>
                    <SearchButton feed teacher/>
                </Show>
            </header>
            <div class="halves">
                <For each=move || attacks.get() key=|method| *method let:method>
                    <Half feed teacher method/>
                </For>
            </div>
            <details class="how">
                <summary>"How does this work?"</summary>
                <div class="explanations">
                    <For each=move || attacks.get() key=|method| *method let:method>
                        {
                            let result = attack(feed, method);
                            let how = Memo::new(move |_| result.with(|result| result.as_ref().map(|result| result.explanation.clone())));
                            view! { <How how title=Signal::derive(text(result, |result| result.title.clone()))/> }
                        }
                    </For>
                </div>
            </details>
        </article>
    }
}
