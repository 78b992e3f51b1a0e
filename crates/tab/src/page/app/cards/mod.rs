//! What the attacks found: a card for each family of attacks, and one each for labels and membership.

mod budget;
mod family;
mod gathered;
mod half;
mod how;
mod key;
mod label;
mod membership;
mod plot;
mod search;

use leptos::prelude::*;
use unmask_core::AttackMethod;
use unmask_wire::view::AttackView;

use self::{budget::Budget, family::FamilyCard, label::LabelCard, membership::MembershipCard, search::SearchOffer};
use super::{feed::Feed, projector::Teacher};
use crate::page::families::{cards, searched};

/// The last result of one attack; `None` while the room has none of it.
type Attack = Memo<Option<AttackView>>;

/// The cards, in the relay's order.
#[component]
pub fn Cards(
    /// The room.
    feed: Feed,
    /// Who may search, give the key away and drop photographs.
    teacher: Teacher,
) -> impl IntoView {
    let cards = Memo::new(move |_| feed.room.with(|room| cards(room.as_ref().map_or(&[], |room| &room.attacks))));
    let searched = Memo::new(move |_| cards.with(|cards| searched(cards)));
    let can_search = feed.part(|room| room.search.is_some());
    let target = Memo::new(move |_| {
        feed.room.with(|room| {
            let room = room.as_ref()?;
            let target = room.target?;
            room.clients.iter().find(|client| client.id == target).map(|client| client.nickname.clone())
        })
    });
    view! {
        <section class="attacks" aria-label="Attacks">
            <div class="attacks-head">
                <h2 class="attacks-title">
                    "What the relay sees"
                    <span hidden=move || target.with(Option::is_none)>" of " <b data-testid="target">{move || target.get()}</b></span>
                </h2>
                <Budget feed teacher/>
            </div>
            <div class="cards">
                <For each=move || cards.get() key=|card| card.family let:card>
                    <FamilyCard feed teacher cards searched family=card.family/>
                </For>
                <p class="card empty" hidden=move || !cards.with(Vec::is_empty)>
                    "As soon as a round ends, the relay tries to rebuild the picture of the client under attack from its update. What it finds appears here."
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

/// The last result of an attack.
fn attack(feed: Feed, method: AttackMethod) -> Attack {
    Memo::new(move |_| {
        feed.room
            .with(|room| room.iter().flat_map(|room| &room.attacks).find(|attack| attack.attack == method).cloned())
    })
}

/// A part of an attack's result, as text.
fn text(result: Attack, of: fn(&AttackView) -> String) -> impl Fn() -> Option<String> + Copy + Send + Sync + 'static {
    move || result.with(|result| result.as_ref().map(of))
}
