//! The scenes on sums: a secure sum hides, a small one is taken apart, doctored weights read one picture out of it.

use leptos::prelude::*;
use unmask_core::ClientId;
use unmask_lesson::{Beat, MAX_SUSPECTS, SumKind};
use unmask_wire::view::{RoomView, SumView};
use unmask_words::{say, shown_nickname};

use super::parts::{Original, Shot, Stage, why_empty};
use crate::page::logic::names;

/// A client in the sum: its name and the picture that it shows.
type Member = (String, Option<String>);

/// The clients in the sum or, before it is made, those that would be.
fn members(room: &RoomView) -> Vec<Member> {
    let coming = || room.situation().suspects().into_iter().map(|suspect| suspect.client).collect();
    let ids = room.sum.as_ref().map_or_else(coming, |sum| sum.clients.clone());
    named(room, ids)
}

/// The client under attack first, then the others, as many as the wall has room for, and the number of those left out.
fn first_members(room: &RoomView) -> (Vec<Member>, u32) {
    let mut ids = room.sum.as_ref().map(|sum| sum.clients.clone()).unwrap_or_else(|| {
        room.clients.iter().filter(|client| client.is_volunteer()).map(|client| client.id).collect()
    });
    ids.sort_by_key(|id| Some(*id) != room.target);
    let more = ids.len().saturating_sub(MAX_SUSPECTS);
    ids.truncate(MAX_SUSPECTS);
    (named(room, ids), u32::try_from(more).unwrap_or(u32::MAX))
}

fn named(room: &RoomView, ids: Vec<ClientId>) -> Vec<Member> {
    let clients = ids.into_iter().filter_map(|id| room.clients.iter().find(|client| client.id == id));
    clients.map(|client| (shown_nickname(&client.nickname), client.original.clone().map(String::from))).collect()
}

/// What came out of the sum, in words.
fn told(sum: Option<&SumView>, otherwise: &str) -> String {
    match sum {
        None => otherwise.to_owned(),
        Some(sum) if sum.pictures.is_empty() => say::sum::working().to_owned(),
        Some(sum) if sum.has_failed() => say::sum::nothing().to_owned(),
        Some(sum) => {
            let seconds = sum.seconds.map_or(0, |seconds| seconds.ceil().max(0.0) as u32);
            let found = sum.pictures.iter().flatten().count() as u32;
            say::sum::found(found, sum.clients.len() as u32, sum.certain as u32, seconds)
        }
    }
}

/// The pictures that go into the sum of a few, above what comes out of it: at first a mixture, then each picture.
#[component]
fn SumOfFew(stage: Stage) -> impl IntoView {
    let members = stage.feed.part(members);
    let members = Memo::new(move |_| members.get().unwrap_or_default());
    let sum = stage.feed.optional(|room| room.sum.clone());
    let is_apart = Memo::new(move |_| stage.place.get().beat() == Beat::TakeApart);
    let why_empty = stage.feed.part(why_empty);
    let why_empty = move || match members.with(Vec::len) {
        0 | 1 => say::sum::too_few(),
        _ if sum.with(Option::is_some) => say::sum::working(),
        _ => why_empty.get().unwrap_or(say::empty::waiting()),
    };
    let member = |(name, picture): Member| {
        view! {
            <figure class="shot" data-testid="sum-member">
                <figcaption>{name.clone()}</figcaption>
                {match picture {
                    Some(picture) => view! { <img src=picture alt=name/> }.into_any(),
                    None => view! { <p class="shot-empty">{say::empty::not_shown()}</p> }.into_any(),
                }}
            </figure>
        }
    };
    let piece = |(place, picture): (usize, Option<String>)| {
        view! {
            <li class="tile-turned" data-testid="sum-piece" style=format!("--place: {place}")>
                <div class="tile-faces">
                    <span class="tile-front" aria-hidden="true">"?"</span>
                    <div class="tile-back">
                        {match picture {
                            Some(picture) => view! { <img src=picture alt=say::shot::from_numbers()/> }.into_any(),
                            None => view! { <p class="shot-empty">{say::empty::no_picture()}</p> }.into_any(),
                        }}
                    </div>
                </div>
            </li>
        }
    };
    let pieces = move || {
        let pictures = sum.with(|sum| sum.as_ref().map(|sum| sum.pictures.clone())).unwrap_or_default();
        pictures.into_iter().map(|picture| picture.map(String::from)).enumerate()
    };
    let found = move || sum.with(|sum| sum.as_ref().map(|sum| sum.pictures.iter().flatten().count().to_string()));
    view! {
        <div class="sum" data-testid="sum" data-found=found data-certain=move || sum.with(|sum| sum.as_ref().map(|sum| sum.certain.to_string()))>
            <div class="shots">{move || members.get().into_iter().map(member).collect_view()}</div>
            <Show
                when=move || is_apart.get()
                fallback=move || view! {
                    <div class="shots">
                        <Shot
                            testid="mixture"
                            title=Signal::derive(|| say::sum::mixture().to_owned())
                            picture=Signal::derive(move || sum.with(|sum| sum.as_ref()?.mixture.clone()).map(String::from))
                            empty=Signal::derive(move || why_empty().to_owned())
                        />
                    </div>
                }
            >
                <ul class="everybody"><For each=pieces key=Clone::clone children=piece/></ul>
                <p class="sum-told" role="status" data-testid="sum-told">{move || sum.with(|sum| told(sum.as_ref(), why_empty()))}</p>
            </Show>
        </div>
    }
}

/// The scenes on sums.
#[component]
pub fn SumOfUpdates(stage: Stage) -> impl IntoView {
    let beat = Memo::new(move |_| stage.place.get().beat());
    let is_of_few = Memo::new(move |_| beat.get().sum() == Some(SumKind::OfFew));
    view! {
        <Show when=move || is_of_few.get() fallback=move || view! { <SecretSum stage beat/> }>
            <SumOfFew stage/>
        </Show>
    }
}

/// The clients of a secure sum, above what the relay makes of what it gets.
#[component]
fn SecretSum(stage: Stage, beat: Memo<Beat>) -> impl IntoView {
    let members = stage.feed.part(first_members);
    let members = Memo::new(move |_| members.get().unwrap_or_default());
    let sum = stage.feed.optional(|room| room.sum.clone());
    let is_secret = stage.feed.part(|room| room.situation().can_add_secretly());
    let noticed = stage.feed.optional(|room| room.noticed);
    let class = stage.feed.optional(|room| {
        let label = room.label.as_ref().filter(|label| Some(label.client) == room.target)?;
        Some(names::class_name(&names::classes_in_force(room), label.only_class()?.into()))
    });
    let waiting = stage.feed.part(|room| match why_empty(room) {
        text if text == say::empty::waiting() => say::secret::waiting(),
        text => text,
    });
    let empty = Signal::derive(move || match is_secret.get() {
        Some(false) => say::secret::too_few().to_owned(),
        _ => waiting.get().unwrap_or(say::empty::waiting()).to_owned(),
    });
    let member = |(name, picture): Member| {
        view! {
            <figure class="shot" data-testid="sum-member">
                <figcaption>{name.clone()}</figcaption>
                {match picture {
                    Some(picture) => view! { <img src=picture alt=name/> }.into_any(),
                    None => view! { <p class="shot-empty">{say::empty::not_shown()}</p> }.into_any(),
                }}
            </figure>
        }
    };
    let more = move || members.with(|(_, more)| (*more > 0).then(|| say::secret::more(*more)));
    let sent = stage.feed.optional(|room| {
        let (sender, address) = room.sum.as_ref()?.masked.clone()?;
        Some((named(room, vec![sender]).pop()?.0, String::from(address)))
    });
    let target = stage.feed.optional(|room| Some(named(room, vec![room.target?]).pop()?.0));
    let masked = move || {
        let title = move || {
            let name = sent.with(|sent| sent.as_ref().map(|(name, _)| name.clone())).or(target.get());
            say::secret::masked(name.unwrap_or_default())
        };
        let picture = move || sent.with(|sent| sent.as_ref().map(|(_, address)| address.clone()));
        view! { <Shot testid="masked" title=Signal::derive(title) picture=Signal::derive(picture) empty/> }
    };
    let mixture = move |title: fn() -> &'static str| {
        let picture = move || sum.with(|sum| sum.as_ref()?.mixture.clone()).map(String::from);
        let title = Signal::derive(move || title().to_owned());
        view! { <Shot testid="mixture" title picture=Signal::derive(picture) empty/> }
    };
    let told = move |text: String| view! { <p class="sum-told" role="status" data-testid="sum-told">{text}</p> };
    let below = move || match beat.get() {
        Beat::SendMasked => masked().into_any(),
        Beat::ShowTotal => view! { {masked()} {mixture(say::sum::mixture)} }.into_any(),
        Beat::Aim => {
            let text = move || class.get().map_or(say::cheat::no_class().to_owned(), say::cheat::class);
            view! { <Original stage/> {move || told(text())} }.into_any()
        }
        Beat::LookFirst => {
            let text = move || match noticed.get() {
                Some((left, asked)) => say::checks::noticed(left, asked),
                None => say::checks::none_yet().to_owned(),
            };
            view! { {move || told(text())} }.into_any()
        }
        Beat::AddNoise => view! { <Original stage/> {mixture(say::checks::noisy)} }.into_any(),
        _ => view! { <Original stage/> {mixture(say::cheat::fished)} }.into_any(),
    };
    view! {
        <div class="sum" data-testid="secret-sum" data-noticed=move || noticed.get().map(|(left, asked)| format!("{left}/{asked}"))>
            <div class="shots">
                {move || members.get().0.into_iter().map(member).collect_view()}
                <p class="sum-more" hidden=move || more().is_none()>{more}</p>
            </div>
            <div class="shots">{below}</div>
        </div>
    }
}
