//! Selects what may be kept of a room: what the class saw, and nothing that opens the room.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use unmask_core::{ClientId, PictureAddress};
use unmask_wire::view::{AttackView, ClientState, ClientView, DataView, LeakView, RoomView};

/// Prefix of a data set's name, before the folder that it is read from.
const FOLDER: &str = "folder:";

/// The room without addresses, PIN and QR code, without paths of the relay's machine, without the photograph that the
/// teacher dropped, and without pictures of those who do not agree to be shown.
pub fn shown(room: &RoomView) -> RoomView {
    let agrees = |client| room.clients.iter().any(|entry| entry.id == client && entry.may_show);
    let attack = |card: &AttackView| AttackView {
        picture: card.picture.clone().filter(|_| agrees(card.client)),
        tables: card.tables.clone().filter(|_| agrees(card.client)),
        ..card.clone()
    };
    let leak =
        |leak: &LeakView| LeakView { picture: leak.picture.clone().filter(|_| agrees(leak.client)), ..leak.clone() };
    let client = |entry: &ClientView| ClientView {
        original: entry.original.clone().filter(|_| entry.may_show),
        picture_waits: false,
        ..entry.clone()
    };
    let is_in = |entry: &&ClientView| entry.state != ClientState::Waiting;
    let data = |data: &DataView| DataView {
        source: if data.source.starts_with(FOLDER) { FOLDER.to_owned() } else { data.source.clone() },
        ..data.clone()
    };
    let mut shown = RoomView {
        deadline_seconds: None,
        banned: 0,
        journal: None,
        clients: room.clients.iter().filter(is_in).map(client).collect(),
        attacks: room.attacks.iter().map(attack).collect(),
        leaks: room.leaks.iter().map(leak).collect(),
        // It is made of the pictures of all of them.
        sum: room.sum.clone().filter(|sum| sum.clients.iter().all(|client| agrees(*client))),
        data: room.data.as_ref().map(data),
        ..room.clone()
    };
    take_out_addresses(&mut shown);
    shown
}

/// Takes out what leads to the room: its addresses, PIN and QR code, and the photograph that the teacher dropped.
pub(crate) fn take_out_addresses(room: &mut RoomView) {
    for text in [&mut room.http_address, &mut room.https_address, &mut room.qr_svg, &mut room.pin] {
        text.clear();
    }
    if let Some(federation) = &mut room.federation {
        federation.superlink.clear();
        // An error contains the address too.
        federation.remark = None;
    }
    if let Some(told) = &mut room.membership {
        told.picture = PictureAddress::default();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The owner, or the client whose update it was reconstructed from.
    pub client: ClientId,
    /// Others whose updates it was reconstructed from.
    pub others: &'a [ClientId],
    pub address: &'a str,
    /// Whether it is the client's own picture, not a reconstruction.
    pub is_original: bool,
}

pub fn addresses(room: &RoomView) -> impl Iterator<Item = Address<'_>> {
    let made = room.attacks.iter().filter_map(|card| {
        Some(Address { client: card.client, address: card.picture.as_deref()?, others: &[], is_original: false })
    });
    let tables = room.attacks.iter().filter_map(|card| Some((card.client, card.tables.as_ref()?)));
    let tables = tables.flat_map(|(client, tables)| {
        let both = [tables.positions.as_deref(), tables.patches.as_deref()];
        both.into_iter().flatten().map(move |address| Address { client, address, others: &[], is_original: false })
    });
    let leaks = room.leaks.iter().filter_map(|leak| {
        Some(Address { client: leak.client, address: leak.picture.as_deref()?, others: &[], is_original: false })
    });
    let sums = room.sum.iter().filter_map(|sum| Some((sum, sum.clients.split_first()?)));
    let sums = sums.flat_map(|(sum, (first, others))| {
        // What one client sent goes with the others, too: without them there is no sum to show it in.
        let masked = sum.masked.iter().map(|(_, address)| address);
        let pictures = sum.pictures.iter().chain([&sum.mixture]).flatten().chain(masked);
        pictures.map(move |address| Address { client: *first, address, others, is_original: false })
    });
    let own = room.clients.iter().filter_map(|client| {
        Some(Address { client: client.id, address: client.original.as_deref()?, others: &[], is_original: true })
    });
    made.chain(tables).chain(leaks).chain(sums).chain(own)
}

/// Replaces each picture's address by the picture, a PNG file, as a `data:` address. One that is not there is removed.
pub fn embed<P: AsRef<[u8]>>(room: &mut RoomView, picture: impl Fn(&str) -> Option<P>) {
    let embedded = |address: &str| Some(PictureAddress::embedded(&STANDARD.encode(picture(address)?)));
    readdress(room, embedded);
    if let Some(told) = room.membership.as_mut().filter(|told| !told.picture.is_empty()) {
        told.picture = embedded(&told.picture).unwrap_or_default();
    }
}

/// Replaces each picture's address, or removes it.
fn readdress(room: &mut RoomView, address: impl Fn(&str) -> Option<PictureAddress>) {
    let made = room.attacks.iter_mut().flat_map(|card| {
        let tables = card.tables.iter_mut().flat_map(|tables| [&mut tables.positions, &mut tables.patches]);
        tables.chain([&mut card.picture])
    });
    let made = made.chain(room.leaks.iter_mut().map(|leak| &mut leak.picture));
    let made = made.chain(room.sum.iter_mut().flat_map(|sum| sum.pictures.iter_mut().chain([&mut sum.mixture])));
    for picture in made.chain(room.clients.iter_mut().map(|client| &mut client.original)) {
        *picture = picture.take().and_then(|own| address(&own));
    }
    if let Some(sum) = &mut room.sum {
        sum.masked = sum.masked.take().and_then(|(client, own)| Some((client, address(&own)?)));
    }
}

/// The room as JSON, its numbers with as few digits as needed.
pub(crate) fn value_of(room: &RoomView) -> serde_json::Result<Value> {
    // Through text: an f32 that becomes a value directly gets an f64's digits.
    serde_json::from_str(&serde_json::to_string(room)?)
}
