//! The scenes on sums: a secure sum hides, a small one is taken apart, doctored weights read one picture out of it.

use leptos::prelude::*;
use unmask_core::{ClientId, PictureAddress, ThreatModel};
use unmask_data::metrics::Level;
use unmask_lesson::{Beat, MAX_SUSPECTS};
use unmask_wire::view::{RoomView, SumView};
use unmask_words::{say, shown_nickname};

use super::parts::{Stage, obstacle, sign};
use crate::page::logic::{attacks, names};

/// A picture with its name above, or words in its place.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    testid: &'static str,
    title: String,
    picture: Option<PictureAddress>,
    empty: String,
    /// How recognisable it is, once its owner has compared it.
    level: Option<Level>,
}

/// What a beat shows: who is in the sum, and below what comes out of it.
#[derive(Debug, Clone, PartialEq, Default)]
struct Shown {
    members: Vec<Figure>,
    /// Members that the wall has no room for.
    more: usize,
    below: Vec<Figure>,
    /// The pictures taken out of the sum, each below its member.
    pieces: Vec<Option<PictureAddress>>,
    told: Option<String>,
}

/// A client by its nickname, with the picture that it shows.
fn client(room: &RoomView, id: ClientId, testid: &'static str) -> Option<Figure> {
    let client = room.clients.iter().find(|client| client.id == id)?;
    let title = shown_nickname(&client.nickname);
    Some(Figure {
        testid,
        title,
        picture: client.original.clone(),
        empty: say::empty::not_shown().to_owned(),
        level: None,
    })
}

/// The words in the place of a picture that there is not yet.
fn empty(room: &RoomView, is_secret: bool, members: usize) -> String {
    let situation = room.situation();
    let said = match is_secret {
        true if !situation.can_add_secretly() => return say::secret::too_few(situation.needed_in_secure_sum()),
        true => obstacle(room).unwrap_or(say::secret::waiting()),
        false if members < 2 => say::sum::too_few(),
        false if room.sum.is_some() => say::sum::working(),
        false => obstacle(room).unwrap_or(say::empty::waiting()),
    };
    said.to_owned()
}

/// What came out of the sum, in words.
fn told(sum: Option<&SumView>, otherwise: &str) -> String {
    match sum {
        None => otherwise.to_owned(),
        Some(SumView { pictures, tokens: Some((found, all)), .. }) if pictures.is_empty() => {
            say::sum::tokens(*found as u32, *all as u32)
        }
        Some(sum) if sum.pictures.is_empty() => say::sum::working().to_owned(),
        Some(sum) if sum.has_failed() => say::sum::nothing().to_owned(),
        Some(sum) => {
            let seconds = sum.seconds.map_or(0, |seconds| seconds.ceil().max(0.0) as u32);
            let found = sum.pictures.iter().flatten().count() as u32;
            say::sum::found(found, sum.clients.len() as u32, sum.certain as u32, seconds)
        }
    }
}

/// The class of the picture under attack, which an earlier update gave away.
fn told_class(room: &RoomView) -> String {
    let label = room.label.as_ref().filter(|label| Some(label.client) == room.target);
    match label.and_then(|label| label.only_class()) {
        Some(class) => say::cheat::class(names::class_name(&names::classes_in_force(room), class.into())),
        None => say::cheat::no_class().to_owned(),
    }
}

fn shown(room: &RoomView, beat: Beat) -> Shown {
    let sum = room.sum.as_ref();
    let is_secret = room.lesson.scene.asks_only_volunteers();
    let coming = || match is_secret {
        true => room.situation().taking_part(),
        false => room.situation().suspects().into_iter().map(|suspect| suspect.client).collect(),
    };
    let mut ids: Vec<ClientId> = sum.map_or_else(coming, |sum| sum.clients.clone());
    if is_secret {
        ids.sort_by_key(|id| Some(*id) != room.target);
    }
    let more = ids.len().saturating_sub(MAX_SUSPECTS);
    ids.truncate(MAX_SUSPECTS);
    let members: Vec<Figure> = ids.into_iter().filter_map(|id| client(room, id, "sum-member")).collect();
    let empty = empty(room, is_secret, members.len());
    let original = || room.target.and_then(|target| client(room, target, "original"));
    let mixture = || {
        let picture = sum.and_then(|sum| sum.mixture.clone());
        let level = sum.and_then(|sum| Level::of(&[sum.score?.1]));
        Some(Figure { testid: "mixture", title: say::sum::mixture().to_owned(), picture, empty: empty.clone(), level })
    };
    let masked = || {
        let sent = sum.and_then(|sum| sum.masked.clone());
        let sender = sent.as_ref().map(|(sender, _)| *sender).or(room.target);
        let name = sender.and_then(|sender| client(room, sender, "masked")).map(|it| it.title).unwrap_or_default();
        let picture = sent.map(|(_, picture)| picture);
        Some(Figure { testid: "masked", title: say::secret::masked(name), picture, empty: empty.clone(), level: None })
    };
    let (below, told) = match beat {
        Beat::SendMasked => ([masked(), None], None),
        Beat::ShowTotal => ([masked(), mixture()], None),
        Beat::AddUpdates => ([mixture(), None], None),
        Beat::TakeApart => ([None, None], Some(told(sum, &empty))),
        Beat::Aim => ([original(), None], Some(told_class(room))),
        Beat::LookFirst => {
            let noticed = room.noticed.map(|(left, asked)| say::checks::noticed(left, asked));
            ([None, None], Some(noticed.unwrap_or_else(|| say::checks::none_yet().to_owned())))
        }
        Beat::AddNoise => {
            let tried = sum.filter(|sum| sum.mixture.is_some()).and_then(|sum| match (sum.tried, &sum.remark) {
                (Some((right, trials)), _) => Some(say::checks::tried(right, trials)),
                (None, None) => Some(say::checks::trying().to_owned()),
                (None, Some(_)) => None,
            });
            ([original(), mixture()], tried)
        }
        // After a cut, the picture may be of anybody with this class.
        Beat::Fish if sum.is_some_and(|sum| sum.threat == ThreatModel::FeatureFishing) => ([mixture(), None], None),
        Beat::Fish => ([original(), mixture()], None),
        _ => ([None, None], None),
    };
    let pieces = sum.filter(|_| beat == Beat::TakeApart).map(|sum| sum.pictures.clone()).unwrap_or_default();
    Shown { members, more, below: below.into_iter().flatten().collect(), pieces, told }
}

fn figure(Figure { testid, title, picture, empty, level }: Figure) -> impl IntoView {
    let told = level.map(|level| view! { <p class="shot-level">{sign(level)} " " {attacks::level(level)}</p> });
    let picture = match picture {
        Some(picture) => view! { <img src=String::from(picture) alt=title.clone()/> }.into_any(),
        None => view! { <p class="shot-empty" role="status">{empty}</p> }.into_any(),
    };
    view! {
        <figure class="shot" data-testid=testid data-level=level.map(Level::name)>
            <figcaption>{title}</figcaption>
            {picture}
            {told}
        </figure>
    }
}

/// A picture that came out of the sum, on a tile that turns.
fn piece((place, picture): (usize, Option<PictureAddress>)) -> impl IntoView {
    let found = match picture {
        Some(picture) => view! { <img src=String::from(picture) alt=say::shot::from_numbers()/> }.into_any(),
        None => view! { <p class="shot-empty">{say::empty::no_picture()}</p> }.into_any(),
    };
    view! {
        <li class="tile-turned" data-testid="sum-piece" style=format!("--place: {place}")>
            <div class="tile-faces">
                <span class="tile-front" aria-hidden="true">"?"</span>
                <div class="tile-back">{found}</div>
            </div>
        </li>
    }
}

fn pictures(Shown { members, more, below, pieces, .. }: Shown) -> impl IntoView {
    let figures = |figures: Vec<Figure>| figures.into_iter().map(figure).collect_view();
    let more = (more > 0).then(|| view! { <p class="sum-more">{say::secret::more(more as u32)}</p> });
    let (has_below, has_pieces) = (!below.is_empty(), !pieces.is_empty());
    view! {
        <div class="shots">{figures(members)} {more}</div>
        <div class="shots" hidden=!has_below>{figures(below)}</div>
        <ul class="everybody" hidden=!has_pieces>{pieces.into_iter().enumerate().map(piece).collect_view()}</ul>
    }
}

/// The scenes on sums: the clients in a sum, above what the relay makes of it.
#[component]
pub fn SumOfUpdates(stage: Stage) -> impl IntoView {
    let shown = Memo::new(move |_| {
        let beat = stage.place.get().beat();
        stage.feed.room.with(|room| room.as_ref().map(|room| shown(room, beat))).unwrap_or_default()
    });
    let told = Memo::new(move |_| shown.with(|shown| shown.told.clone()));
    view! {
        <div class="sum" data-testid="sum">
            {move || pictures(shown.get())}
            <p class="sum-told" role="status" data-testid="sum-told" hidden=move || told.with(Option::is_none)>{told}</p>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn the_wall_counts_what_is_found_of_a_sum() {
        let told = |sum: SumView| told(Some(&sum), "");
        assert_eq!(told(SumView::default()), "Taking the sum apart…");
        let tokens = Some((31, 68));
        assert_eq!(told(SumView { tokens, ..SumView::default() }), "Taking the sum apart: 31 of 68 pieces found…");
        let ended = SumView { tokens, pictures: vec![None; 4], ..SumView::default() };
        assert_eq!(told(ended), "Nothing came out of this sum.");
    }

    #[wasm_bindgen_test]
    fn the_wall_tells_while_the_noise_is_tested_and_what_came_of_it() {
        let mixture = Some(PictureAddress::on_server("attacks/sum.png"));
        let told = |sum: SumView| {
            shown(&RoomView { sum: Some(sum), ..RoomView::default() }, Beat::AddNoise).told.unwrap_or_default()
        };
        let sum = SumView { mixture, ..SumView::default() };
        assert_eq!(told(SumView::default()), "", "there is no sum yet");
        assert_eq!(told(sum.clone()), "Testing the noise with other pictures…");
        assert!(told(SumView { tried: Some((12, 20)), ..sum.clone() }).contains("12 of 20 guesses right"));
        assert_eq!(told(SumView { remark: Some("Cannot test the noise".to_owned()), ..sum }), "");
    }
}
