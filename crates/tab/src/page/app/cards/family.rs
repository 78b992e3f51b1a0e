//! Attackers who solve the same problem, side by side.

use leptos::prelude::*;
use unmask_core::{AttackFamily, AttackMethod};

use super::{attack_result::AttackResult, explanation::Explanation, search::SearchButton};
use crate::page::{
    app::{feed::Feed, signals::part, teacher::Teacher},
    attack_groups::AttackGroup,
};

/// One card with the result of each of its attacks.
#[component]
pub fn FamilyCard(
    feed: Feed,
    teacher: Teacher,
    /// All groups, of which this card shows one.
    groups: Memo<Vec<AttackGroup>>,
    /// The card from which the search is started and stopped.
    searched: Memo<Option<AttackFamily>>,
    /// What its attacks have in common.
    family: AttackFamily,
) -> impl IntoView {
    let attacks = Memo::new(move |_| -> Vec<AttackMethod> {
        groups.with(|groups| {
            let group = groups.iter().find(|group| group.family == family);
            group.map(|group| group.attacks.clone()).unwrap_or_default()
        })
    });
    let has_search = Memo::new(move |_| searched.get() == Some(family));
    let sentence = feed.optional(move |room| {
        let first = attacks.with(|attacks| attacks.first().copied())?;
        room.attacks.iter().find(|attack| attack.attack == first).map(|attack| attack.explanation.sentence.clone())
    });
    let explanation = move |method| {
        let how = part(feed.attack(method), |result| result.explanation.clone());
        view! { <Explanation how=Memo::new(move |_| how()) title=method.title()/> }
    };
    view! {
        <article class="card family" class:several=move || attacks.with(|attacks| attacks.len() > 1) data-testid="family" data-family=family.name()>
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
                <For each=move || attacks.get() key=|method| *method let:method>
                    <AttackResult feed teacher method/>
                </For>
            </div>
            <details class="how">
                <summary>"How does this work?"</summary>
                <div class="explanations">
                    <For each=move || attacks.get() key=|method| *method let:method>{explanation(method)}</For>
                </div>
            </details>
        </article>
    }
}
