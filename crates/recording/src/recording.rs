//! Writes a recording state by state, and reads its valid part.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, de::Error as _};
use serde_json::Value;
use thiserror::Error;
use unmask_core::ClientId;
use unmask_wire::view::RoomView;

use crate::{
    change::Change,
    forget::Forgotten,
    line::{AnyHead, FORMAT, Head, Line, Picture, Written},
    shown::{Address, addresses, shown, value_of},
};

/// The file's name on a relay's disk, as a download, and beside the page that plays it.
pub const NAME: &str = "lesson.unmask";
/// Most bytes of the text: as much as a page can hold and play.
pub const MAX_BYTES: usize = 32 << 20;
/// Longest line: a batch of large pictures.
const MAX_LINE: usize = 4 << 20;
/// Most list entries that all changes of a recording may move. Each state of a long lesson drops points of curves.
pub(crate) const WORK: u64 = 200_000_000;
/// Most pictures of its own of one client: each is a few kilobytes, and a client may show another one every second. Later
/// ones are left out, so that they take no space from the rest of the lesson.
const MAX_ORIGINALS: usize = 16;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const PNG: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];

/// A recorded lesson.
#[derive(Debug, Clone)]
pub struct Recording {
    head: Head,
    lines: Vec<Line>,
    /// Bytes in the text of all lines.
    bytes: usize,
    last: Value,
    /// Its time, in milliseconds since the start.
    last_at: u64,
    /// Addresses of the stored pictures.
    known: BTreeSet<String>,
}

/// The readable part of a recording.
#[derive(Debug)]
pub struct Read {
    pub recording: Recording,
    /// Why the rest is left out, in words, if it is.
    pub torn: Option<String>,
}

/// Why a recording cannot be played or extended.
#[derive(Debug, Error)]
pub enum RecordingError {
    #[error("this is no recording of a lesson: its first line is missing or wrong")]
    NoRecording,
    #[error(
        "this recording has format {0}, and this program reads {FORMAT}; play it with the program that recorded it"
    )]
    Format(u32),
    #[error("this recording is larger than {} MiB unpacked, the most that can be played", MAX_BYTES >> 20)]
    TooLarge,
    #[error("the recording is full: it has {} MiB", MAX_BYTES >> 20)]
    Full,
    #[error("a state of the room cannot be read or written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the recording cannot be packed: {0}")]
    Pack(#[from] io::Error),
}

impl Recording {
    /// An empty recording of a lesson that began at `began` (seconds since 1970), by this version of the program.
    pub fn new(program: &str, began: u64) -> Self {
        let head = Head { format: FORMAT, program: program.to_owned(), began };
        Self::of(head)
    }

    fn of(head: Head) -> Self {
        Self { head, lines: Vec::new(), bytes: 0, last: Value::Null, last_at: 0, known: BTreeSet::new() }
    }

    /// Start of the lesson, in seconds since 1970.
    pub fn began(&self) -> u64 {
        self.head.began
    }

    /// Time of the last state, in milliseconds since the start.
    pub fn last_at(&self) -> u64 {
        self.last_at
    }

    /// Number of bytes of text.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of lines after the first.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Adds the room at `at` milliseconds after the start, without what must not be kept, and its new pictures, which
    /// `picture` returns as PNG. An unchanged room adds nothing.
    ///
    /// # Errors
    /// The recording is full, or the room cannot be written as JSON. The recording is then unchanged.
    pub fn add(
        &mut self,
        at: u64,
        room: &RoomView,
        picture: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<(), RecordingError> {
        let room = shown(room);
        let value = value_of(&room)?;
        let Some(change) = Change::between(&self.last, &value) else { return Ok(()) };
        let mut added = BTreeSet::new();
        let new = |Address { client, address, others, is_original }: Address<'_>| {
            let is_too_many = || is_original && self.originals_of(client) >= MAX_ORIGINALS;
            let is_new = !self.known.contains(address) && !is_too_many() && added.insert(address.to_owned());
            let png = is_new.then(|| picture(address)).flatten().filter(|png| png.starts_with(&PNG))?;
            Some(Picture { address: address.to_owned(), client, others: others.to_vec(), is_original, png })
        };
        let mut lines: Vec<Line> = addresses(&room).filter_map(new).map(Line::Picture).collect();
        let at = at.max(self.last_at);
        lines.push(Line::state(at, change)?);
        let lengths =
            lines.iter().map(|line| Ok(line.text()?.len() + 1)).collect::<serde_json::Result<Vec<usize>>>()?;
        if self.bytes + lengths.iter().sum::<usize>() > MAX_BYTES || lengths.iter().any(|length| *length > MAX_LINE) {
            return Err(RecordingError::Full);
        }
        self.bytes += lengths.iter().sum::<usize>();
        self.known.extend(lines.iter().filter_map(|line| match line {
            Line::Picture(picture) => Some(picture.address.clone()),
            Line::State { .. } => None,
        }));
        self.lines.extend(lines);
        (self.last, self.last_at) = (value, at);
        Ok(())
    }

    fn originals_of(&self, client: ClientId) -> usize {
        let is_own = |line: &&Line| matches!(line, Line::Picture(own) if own.is_original && own.client == client);
        self.lines.iter().filter(is_own).count()
    }

    /// Removes what is to be forgotten from all states; returns whether there was anything.
    ///
    /// # Errors
    /// A state cannot be read or written. All states and pictures are then removed, because what cannot be searched
    /// must not be kept.
    pub fn forget(&mut self, forgotten: &Forgotten) -> Result<bool, RecordingError> {
        match self.without(forgotten) {
            Ok(without) => {
                let is_less = without.bytes != self.bytes || without.lines != self.lines;
                *self = without;
                Ok(is_less)
            }
            Err(error) => {
                *self = Self::of(self.head.clone());
                Err(error.into())
            }
        }
    }

    fn without(&self, forgotten: &Forgotten) -> serde_json::Result<Self> {
        let mut names = BTreeSet::new();
        if !forgotten.known.is_empty() {
            self.each_state(|_, value| {
                forgotten.names(&RoomView::deserialize(value)?, &mut names);
                Ok(())
            })?;
        }
        let mut result = Self::of(self.head.clone());
        // The lines before each state are its pictures.
        let mut pictures = self.lines.iter().enumerate().filter_map(|(index, line)| match line {
            Line::Picture(picture) => Some((index, picture)),
            Line::State { .. } => None,
        });
        let mut next = pictures.next();
        self.each_state(|index, value| {
            while let Some((_, picture)) = next.take_if(|(at, _)| *at < index) {
                if !forgotten.hides(picture) {
                    result.push(Line::Picture(picture.clone()))?;
                    result.known.insert(picture.address.clone());
                }
                next = pictures.next();
            }
            let mut room = RoomView::deserialize(value)?;
            forgotten.take_out(&names, &mut room);
            let value = value_of(&room)?;
            if let (Line::State { at, .. }, Some(change)) = (&self.lines[index], Change::between(&result.last, &value))
            {
                result.push(Line::state(*at, change)?)?;
                (result.last, result.last_at) = (value, *at);
            }
            Ok(())
        })?;
        Ok(result)
    }

    fn push(&mut self, line: Line) -> serde_json::Result<()> {
        self.bytes += line.text()?.len() + 1;
        self.lines.push(line);
        Ok(())
    }

    /// Calls `each` with the place and the value of each state, in order.
    fn each_state(&self, mut each: impl FnMut(usize, &Value) -> serde_json::Result<()>) -> serde_json::Result<()> {
        let (mut value, mut work) = (Value::Null, u64::MAX);
        for (index, line) in self.lines.iter().enumerate() {
            if let Line::State { text, .. } = line {
                if let Written::State { change, .. } = serde_json::from_str(text)? {
                    change.make(&mut value, &mut work).map_err(serde_json::Error::custom)?;
                }
                each(index, &value)?;
            }
        }
        Ok(())
    }

    fn last_state(&self) -> serde_json::Result<Value> {
        let mut last = Value::Null;
        self.each_state(|_, value| {
            last.clone_from(value);
            Ok(())
        })?;
        Ok(last)
    }

    /// The text of the lines from `place` on; includes the first line if `place` is 0.
    ///
    /// # Errors
    /// A line cannot be written as JSON.
    pub fn text_from(&self, place: usize) -> Result<String, RecordingError> {
        let mut text = String::new();
        if place == 0 {
            text += &serde_json::to_string(&Written::Recording(self.head.clone()))?;
            text.push('\n');
        }
        for line in self.lines.iter().skip(place) {
            text += &line.text()?;
            text.push('\n');
        }
        Ok(text)
    }

    /// The whole file, packed with gzip.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn packed(&self) -> Result<Vec<u8>, RecordingError> {
        let text = self.text_from(0)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes())?;
        Ok(encoder.finish()?)
    }

    /// Reads a file, packed or not. Everything after a torn, damaged or oversized line is left out.
    ///
    /// # Errors
    /// The file is not a recording, has another format, or is too large.
    pub fn read(file: &[u8]) -> Result<Read, RecordingError> {
        let mut torn = None;
        let mut unpacked = Vec::new();
        let text = if file.starts_with(&GZIP) {
            let mut reader = GzDecoder::new(file).take(MAX_BYTES as u64 + 1);
            if let Err(error) = reader.read_to_end(&mut unpacked) {
                torn = Some(format!("the file is torn or damaged ({error})"));
            }
            &unpacked
        } else {
            file
        };
        if text.len() > MAX_BYTES {
            return Err(RecordingError::TooLarge);
        }
        let mut lines = text.split(|byte| *byte == b'\n');
        let head = head_of(lines.next().unwrap_or_default())?;
        let mut recording = Self::of(head);
        let mut work = WORK;
        // Nothing follows the last line break.
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            if let Err(reason) = recording.take(line, &mut work) {
                torn = Some(format!("line {} cannot be played: {reason}", number + 2));
                recording.last = recording.last_state()?;
                break;
            }
        }
        Ok(Read { recording, torn })
    }

    /// Adds a line from an untrusted file.
    fn take(&mut self, text: &[u8], work: &mut u64) -> Result<(), String> {
        if text.len() > MAX_LINE {
            return Err(format!("it has more than {} MiB", MAX_LINE >> 20));
        }
        let text = str::from_utf8(text).map_err(|_| "it is not text".to_owned())?;
        let line = match serde_json::from_str(text).map_err(|error| error.to_string())? {
            Written::Recording(_) => return Err("another recording begins".to_owned()),
            Written::Picture { address, client, others, is_original, png } => {
                let png = STANDARD.decode(png).map_err(|error| format!("its picture cannot be decoded: {error}"))?;
                if !png.starts_with(&PNG) {
                    return Err("its picture is not a PNG".to_owned());
                }
                if !self.known.insert(address.clone()) {
                    return Err(format!("there are two pictures {address:?}"));
                }
                Line::Picture(Picture { address, client, others, is_original, png })
            }
            Written::State { at, change } => {
                if at < self.last_at {
                    return Err("it is of a time before the line before".to_owned());
                }
                let mut value = std::mem::take(&mut self.last);
                // A partly applied change is not a state, so nothing after it is read.
                change.make(&mut value, work).map_err(|error| error.to_string())?;
                (self.last, self.last_at) = (value, at);
                Line::State { at, text: text.into() }
            }
        };
        self.bytes += text.len() + 1;
        self.lines.push(line);
        Ok(())
    }
}

fn head_of(line: &[u8]) -> Result<Head, RecordingError> {
    let AnyHead { recording } = serde_json::from_slice(line).map_err(|_| RecordingError::NoRecording)?;
    if recording.format != FORMAT {
        return Err(RecordingError::Format(recording.format));
    }
    match serde_json::from_slice(line) {
        Ok(Written::Recording(head)) => Ok(head),
        _ => Err(RecordingError::NoRecording),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{PictureAddress, TradeOffColumn, TradeOffColumns};
    use unmask_wire::view::{
        AttackView, ClientState, ClientView, LeakView, LogLine, LossPoint, MembershipView, SumView, TablesView,
    };

    use super::*;
    use crate::Player;

    fn client(id: u32, may_show: bool) -> ClientView {
        ClientView {
            id: ClientId(id),
            nickname: format!("Ada {id}"),
            device: "CPU".to_owned(),
            state: ClientState::Joined,
            loss: None,
            bytes_sent: 0,
            updates: 0,
            refusal: None,
            may_show,
            lends_update: false,
            is_robot: false,
            neighbours: 0,
            picture_waits: false,
            original: may_show.then(|| PictureAddress::on_server(&format!("original/{id}.png"))),
        }
    }

    fn address(client: u32, round: u32) -> String {
        format!("/api/reconstruction/april/{round}-{client}.png")
    }

    fn tables(client: u32, round: u32) -> [String; 2] {
        ["positions", "patches"].map(|name| format!("/api/reconstruction/{name}/{round}-{client}.png"))
    }

    /// The pictures that an attack makes of a client's update.
    fn made(client: u32, round: u32) -> impl Iterator<Item = String> {
        tables(client, round).into_iter().chain([address(client, round)])
    }

    fn png(address: &str) -> Vec<u8> {
        [&PNG, address.as_bytes()].concat()
    }

    /// A room in this round with these clients; the first one is attacked.
    fn room(round: u32, clients: &[(u32, bool)]) -> RoomView {
        let losses = (round.saturating_sub(5)..round)
            .map(|round| LossPoint { round, loss: 0.1, updates: 1, defence: Default::default() })
            .collect();
        let attack = |(id, _): &(u32, bool)| {
            let own = |address: String| Some(PictureAddress::try_from(address).unwrap());
            let [positions, patches] = tables(*id, round).map(own);
            AttackView {
                client: ClientId(*id),
                round,
                nickname: format!("Ada {id}"),
                picture: own(address(*id, round)),
                ssim: Some(0.3),
                tables: Some(TablesView { positions, patches, ..TablesView::default() }),
                ..AttackView::default()
            }
        };
        let line = |(id, _): &(u32, bool)| LogLine { number: (*id).into(), round, text: format!("Ada {id} joined.") };
        RoomView {
            round,
            losses,
            clients: clients.iter().map(|(id, may_show)| client(*id, *may_show)).collect(),
            attacks: clients.iter().take(1).map(attack).collect(),
            log: clients.iter().map(line).collect(),
            ..RoomView::default()
        }
    }

    fn recorded(rooms: &[RoomView]) -> Recording {
        let mut recording = Recording::new("0.1.0", 1_700_000_000);
        for (second, room) in (0..).zip(rooms) {
            recording.add(1000 * second, room, |address| Some(png(address))).unwrap();
        }
        recording
    }

    fn read(file: &[u8]) -> Recording {
        let Read { recording, torn } = Recording::read(file).unwrap();
        assert_eq!(torn, None);
        recording
    }

    fn rooms() -> impl Strategy<Value = Vec<RoomView>> {
        let clients = prop::collection::vec((1..5u32, any::<bool>()), 0..4);
        prop::collection::vec((0..20u32, clients).prop_map(|(round, clients)| room(round, &clients)), 1..8)
    }

    proptest! {
        /// Packed or not, the room is the same at every time, with its pictures.
        #[test]
        fn what_is_recorded_is_played(rooms in rooms()) {
            let recording = recorded(&rooms);
            for file in [recording.packed().unwrap(), recording.text_from(0).unwrap().into_bytes()] {
                let again = read(&file);
                prop_assert_eq!(again.bytes(), recording.bytes());
                prop_assert_eq!(&again.lines, &recording.lines);
                prop_assert_eq!(&again.last, &recording.last);
                let mut player = Player::new(again);
                // Forwards, then backwards.
                for second in (0..rooms.len()).chain((0..rooms.len()).rev()) {
                    player.seek(1000 * second as u64 + 500);
                    let mut wanted = shown(&rooms[second]);
                    crate::shown::embed(&mut wanted, |address| Some(png(address)));
                    prop_assert_eq!(player.room().unwrap(), wanted);
                }
            }
        }

        /// A truncated file plays up to its end, and can be extended.
        #[test]
        fn a_torn_file_plays_up_to_where_it_is_whole(rooms in rooms(), end in any::<prop::sample::Index>(), is_packed: bool) {
            let recording = recorded(&rooms);
            let file = if is_packed { recording.packed().unwrap() } else { recording.text_from(0).unwrap().into() };
            let end = end.index(file.len());
            match Recording::read(&file[..end]) {
                Err(error) => prop_assert!(matches!(error, RecordingError::NoRecording), "{}", error),
                Ok(Read { recording: mut part, .. }) => {
                    prop_assert!(recording.lines.starts_with(&part.lines));
                    let at = part.last_at() + 1000;
                    part.add(at, rooms.last().unwrap(), |address| Some(png(address))).unwrap();
                    let mut player = Player::new(read(&part.packed().unwrap()));
                    player.seek(at);
                    let wanted = shown(rooms.last().unwrap());
                    prop_assert_eq!(player.recorded().unwrap(), wanted);
                }
            }
        }

        /// Any bytes are refused or played.
        #[test]
        fn damaged_files_do_no_harm(
            rooms in rooms(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            is_packed: bool,
        ) {
            let recording = recorded(&rooms);
            let mut file = if is_packed { recording.packed().unwrap() } else { recording.text_from(0).unwrap().into() };
            for (place, byte) in damage {
                let place = place.index(file.len());
                file[place] = byte;
            }
            if let Ok(Read { recording, .. }) = Recording::read(&file) {
                let mut player = Player::new(recording);
                while player.step() {
                    let _ = player.room();
                }
            }
        }

        /// No trace of a forgotten client's pictures remains, and everything of the other clients does.
        #[test]
        fn what_is_forgotten_leaves_no_trace(rooms in rooms(), gone in 1..5u32, is_unknown: bool) {
            let mut recording = recorded(&rooms);
            let before = recording.clone();
            let id = ClientId(gone);
            let forgotten = if is_unknown { Forgotten::known(id) } else { Forgotten::shown(id) };
            let is_less = recording.forget(&forgotten).unwrap();
            prop_assert_eq!(is_less, recording.lines != before.lines);
            prop_assert!(!recording.forget(&forgotten).unwrap());
            let text = recording.text_from(0).unwrap();
            prop_assert_eq!(text.len(), recording.bytes() + recording.text_from(0).unwrap().lines().next().unwrap().len() + 1);
            let own = STANDARD.encode(png(&format!("/api/original/{gone}.png")));
            prop_assert!(!text.contains(&own));
            for round in 0..20 {
                for own in made(gone, round) {
                    prop_assert!(!text.contains(&STANDARD.encode(png(&own))) && !text.contains(&own));
                }
                for other in (1..5).filter(|other| *other != gone).flat_map(|other| made(other, round)) {
                    prop_assert_eq!(recording.known.contains(&other), before.known.contains(&other));
                }
            }
            let name = format!("Ada {gone}");
            prop_assert!(!is_unknown || !text.contains(&name), "{}", text);
            let mut player = Player::new(read(text.as_bytes()));
            while player.step() {
                let room = player.room().unwrap();
                prop_assert!(room.attacks.iter().all(|card| card.client != id));
                prop_assert!(!is_unknown || room.clients.iter().all(|client| client.id != id));
            }
        }
    }

    #[test]
    fn pictures_of_those_who_do_not_agree_are_not_taken() {
        let text = recorded(&[room(3, &[(1, false), (2, true)])]).text_from(0).unwrap();
        assert!(!text.contains("reconstruction") && !text.contains("original/1"), "{text}");
        let text = recorded(&[room(3, &[(2, true), (1, false)])]).text_from(0).unwrap();
        assert!(made(2, 3).all(|own| text.contains(&STANDARD.encode(png(&own)))), "{text}");
    }

    #[test]
    fn nothing_is_kept_that_opens_the_room() {
        let secret = "314159".to_owned();
        let room = RoomView {
            http_address: format!("http://{secret}/"),
            https_address: format!("https://{secret}/"),
            qr_svg: format!("<svg>{secret}</svg>"),
            pin: secret.clone(),
            journal: Some(unmask_wire::view::JournalView { round: 1, failure: Some(secret.clone()) }),
            federation: Some(unmask_wire::view::FederationView {
                superlink: secret.clone(),
                remark: Some(secret.clone()),
                ..Default::default()
            }),
            data: Some(unmask_wire::view::DataView { source: format!("folder:/{secret}"), ..Default::default() }),
            membership: Some(MembershipView { picture: PictureAddress::on_server(&secret), ..Default::default() }),
            deadline_seconds: Some(314_159.0),
            ..RoomView::default()
        };
        let text = recorded(&[room]).text_from(0).unwrap();
        assert!(!text.contains(&secret), "{text}");
    }

    #[test]
    fn a_hidden_original_goes_and_what_was_made_of_updates_stays() {
        let mut recording = recorded(&[room(1, &[(1, true), (2, true)])]);
        let own = |id| format!("/api/original/{id}.png");
        assert!(recording.known.contains(&own(1)) && recording.known.contains(&own(2)));
        assert!(recording.forget(&Forgotten::original(ClientId(1))).unwrap());
        assert!(!recording.known.contains(&own(1)) && recording.known.contains(&own(2)));
        assert!(recording.known.contains(&address(1, 1)));
    }

    /// Each of its pictures is made of everybody's numbers.
    #[test]
    fn a_sum_goes_with_any_of_its_clients() {
        let picture = |name: &str| Some(PictureAddress::on_server(&format!("sum/{name}.png")));
        let sum = SumView {
            clients: vec![ClientId(1), ClientId(2)],
            mixture: picture("mixture"),
            masked: picture("masked").map(|own| (ClientId(2), own)),
            pictures: vec![picture("one"), None],
            ..SumView::default()
        };
        let with = |agree: bool| RoomView { sum: Some(sum.clone()), ..room(1, &[(1, true), (2, agree)]) };
        let summed = |recording: &Recording| recording.known.iter().filter(|known| known.contains("sum")).count();
        let played = |recording: Recording| {
            let mut player = Player::new(recording);
            assert!(player.step());
            player.room().unwrap().sum
        };
        assert_eq!(summed(&recorded(&[with(false)])), 0, "one does not agree");
        let recording = recorded(&[with(true)]);
        assert_eq!(summed(&recording), 3);
        let shown = played(recording.clone()).unwrap();
        assert!(shown.pictures[0].is_some() && shown.masked.is_some());
        for client in [1, 2].map(ClientId) {
            // Also after it was written and read.
            let recording = read(recording.text_from(0).unwrap().as_bytes());
            for forgotten in [Forgotten::shown(client), Forgotten::original(client)] {
                let mut recording = recording.clone();
                assert!(recording.forget(&forgotten).unwrap());
                assert_eq!((summed(&recording), played(recording)), (0, None), "{client}");
            }
        }
    }

    #[test]
    fn a_reset_takes_all_pictures_and_no_score() {
        let mut recording = recorded(&[room(1, &[(1, true)]), room(2, &[(2, true)])]);
        assert!(recording.forget(&Forgotten::all_pictures()).unwrap());
        assert!(recording.known.is_empty());
        let mut player = Player::new(recording);
        while player.step() {
            let room = player.room().unwrap();
            assert_eq!((&room.attacks[0].picture, room.attacks[0].ssim), (&None, Some(0.3)));
        }
    }

    #[test]
    fn a_room_that_stays_as_it_is_takes_no_place() {
        let room = room(3, &[(1, true)]);
        let recording = recorded(&[room.clone(), RoomView { deadline_seconds: Some(3.0), ..room.clone() }, room]);
        // The reconstruction, its two tables, the original, and one state.
        assert_eq!(recording.len(), 5);
    }

    /// Somebody who shows another picture each second for an hour leaves the recording to the others.
    #[test]
    fn pictures_of_one_client_do_not_fill_the_recording() {
        let mut recording = Recording::new("0.1.0", 0);
        let large = |address: &str| Some([&png(address)[..], &[7; 3000]].concat());
        let mut last = room(1, &[(1, true), (2, true)]);
        for second in 0..3600 {
            last.clients[0].original = Some(PictureAddress::on_server(&format!("original/{}.png", 100 + second)));
            recording.add(1000 * second, &last, large).unwrap();
        }
        assert!(recording.bytes() < MAX_BYTES / 32, "{} bytes", recording.bytes());
        let mut player = Player::new(recording);
        player.seek(5_000);
        let shown = player.room().unwrap();
        assert!(shown.clients.iter().all(|client| client.original.is_some()), "first pictures are kept");
        player.seek(u64::MAX);
        let shown: Vec<_> = player.room().unwrap().clients.iter().map(|client| client.original.is_some()).collect();
        assert_eq!(shown, [false, true]);
    }

    #[test]
    fn a_full_recording_stays_as_it_is() {
        let mut recording = Recording::new("0.1.0", 0);
        let large = |address: &str| Some([&png(address)[..], &vec![0; 2 << 20]].concat());
        let full = (0..100).find_map(|round| recording.add(1000, &room(round, &[(1, true)]), large).err()).unwrap();
        assert!(matches!(full, RecordingError::Full));
        assert!(recording.bytes() <= MAX_BYTES && recording.bytes() > MAX_BYTES / 2);
        let again = read(&recording.packed().unwrap());
        assert_eq!(again.lines, recording.lines);
        let huge = |address: &str| Some([&png(address)[..], &vec![0; MAX_LINE]].concat());
        let mut recording = Recording::new("0.1.0", 0);
        recording.add(0, &room(1, &[(1, true)]), huge).unwrap_err();
        assert!(recording.is_empty());
    }

    /// A file that another program wrote, whose pages would load pictures from another machine.
    #[test]
    fn foreign_addresses_are_refused_or_cleaned() {
        const FOREIGN: &str = "https://foreign.example/a.png";
        let whole = serde_json::to_value(RoomView {
            leaks: vec![LeakView { client: ClientId(1), picture: None, remark: None }],
            sum: Some(SumView { clients: vec![ClientId(1)], pictures: vec![None], ..SumView::default() }),
            membership: Some(MembershipView::default()),
            columns: Some(TradeOffColumns {
                model: "vit".to_owned(),
                robots: 1,
                test_pictures: 1,
                chance: 0.1,
                is_recorded: false,
                columns: vec![TradeOffColumn {
                    defence: Default::default(),
                    rounds: 1,
                    accuracy: None,
                    ssim: None,
                    picture: None,
                }],
            }),
            ..room(3, &[(1, true)])
        })
        .unwrap();
        let played = |value: &Value| {
            let head = Recording::new("0.1.0", 0).text_from(0).unwrap();
            let line = Line::state(0, Change::To(value.clone())).unwrap().text().unwrap();
            let mut player = Player::new(read((head + &line).as_bytes()));
            assert!(player.step());
            player.room()
        };
        played(&whole).unwrap();
        for place in [
            "/clients/0/original",
            "/attacks/0/picture",
            "/attacks/0/tables/positions",
            "/attacks/0/tables/patches",
            "/leaks/0/picture",
            "/sum/mixture",
            "/sum/pictures/0",
            "/membership/picture",
            "/columns/columns/0/picture",
        ] {
            let mut hostile = whole.clone();
            *hostile.pointer_mut(place).unwrap() = FOREIGN.into();
            let refusal = played(&hostile).unwrap_err();
            assert!(refusal.contains("may not load a picture from") && refusal.contains(FOREIGN), "{place}: {refusal}");
        }
        for place in ["/http_address", "/https_address", "/qr_svg"] {
            let mut hostile = whole.clone();
            *hostile.pointer_mut(place).unwrap() = FOREIGN.into();
            let room = serde_json::to_string(&played(&hostile).unwrap()).unwrap();
            assert!(!room.contains(FOREIGN), "{place}: {room}");
        }
    }

    #[test]
    fn hostile_files_are_refused_in_words() {
        let error = |file: &[u8]| Recording::read(file).unwrap_err().to_string();
        for file in [&b""[..], b"PK\x03\x04", b"{}\n", b"\x1f\x8b", b"{\"state\":{\"at\":0,\"change\":{\"to\":1}}}\n"] {
            assert!(error(file).contains("no recording"), "{file:?}");
        }
        let next = FORMAT + 1;
        let other = format!("{{\"recording\":{{\"format\":{next},\"later\":true}}}}\n");
        let refusal = error(other.as_bytes());
        assert!(refusal.contains(&format!("format {next}")), "{refusal}");
        // Three hundred bytes that unpack to more than the limit.
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..=MAX_BYTES >> 20 {
            bomb.write_all(&vec![b'a'; 1 << 20]).unwrap();
        }
        assert!(error(&bomb.finish().unwrap()).contains("larger than 32 MiB"));

        let head = Recording::new("0.1.0", 0).text_from(0).unwrap();
        let torn = |lines: &str| {
            let Read { recording, torn } = Recording::read((head.clone() + lines).as_bytes()).unwrap();
            (recording.len(), torn.unwrap())
        };
        let picture = r#"{"picture":{"address":"a","client":1,"is_original":false,"png":"iVBORw0KGgo="}}"#;
        for (lines, whole, reason) in [
            (head.clone(), 0, "another recording"),
            (format!("{picture}\n{picture}\n"), 1, "two pictures"),
            (picture.replace("iVBO", "AAAA"), 0, "not a PNG"),
            (r#"{"state":{"at":0,"change":{"list":{"drop":1}}}}"#.to_owned(), 0, "not a list"),
            (r#"{"state":{"at":0,"change":{"to":"#.to_owned() + &"[".repeat(100_000), 0, "recursion limit"),
            ("\"".to_owned() + &"a".repeat(MAX_LINE) + "\"", 0, "more than 4 MiB"),
        ] {
            let (len, torn) = torn(&lines);
            assert!(len == whole && torn.contains(reason), "{torn}");
        }
        let back = "{\"state\":{\"at\":2,\"change\":{\"to\":{}}}}\n{\"state\":{\"at\":1,\"change\":{\"to\":{}}}}\n";
        assert_eq!(torn(back).0, 1);
    }
}
