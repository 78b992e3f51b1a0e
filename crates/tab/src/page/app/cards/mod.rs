//! What the attacks found: a card for each family of attacks, and one each for labels and membership.

mod attack_result;
mod budget;
mod colluder;
mod explanation;
mod family;
mod gathered_rounds;
mod label;
mod membership;
mod residual_plot;
mod search;

use leptos::prelude::*;

use self::{budget::Budget, family::FamilyCard, label::LabelCard, membership::MembershipCard, search::SearchOffer};
use super::{feed::Feed, teacher::Teacher};
use crate::page::attack_groups::{by_family, first_search};

/// The cards, in the relay's order.
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
                <Show when=move || can_search.get() == Some(true) && searched.with(Option::is_none)>
                    <SearchOffer feed teacher/>
                </Show>
                <div class="findings">
                    <LabelCard feed/>
                    <MembershipCard feed teacher/>
                </div>
            </div>
        </section>
    }
}
