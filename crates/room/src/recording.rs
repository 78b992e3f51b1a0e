//! The recording of the lesson: what the class saw, one state a second, for later playback.
//!
//! The room hands states and withdrawals to the recording's [`Keeper`] in order. A state from before a withdrawal can
//! therefore never be recorded after it.

mod keeper;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use unmask_core::ClientId;
use unmask_recording::{Forgotten, MAX_BYTES, RecordingError, addresses};
use unmask_wire::view::RoomView;

pub use self::keeper::{Keeper, RecordingOrder, RecordingStore};
use super::{reply::Reply, time::Moment};
use crate::attacks::Pictures;

/// Shortest time between two states while the recording is less than 1 / [`PARTS`] full.
const INTERVAL: Duration = Duration::from_secs(1);
/// The interval doubles each time another 1 / `PARTS` of the space is used, so that a long lesson fits.
const PARTS: usize = 8;
/// Upper limit of states waiting for the keeper; further states are skipped.
const MAX_WAITING: usize = 8;
/// Milliseconds between the last state before a restart of the relay and the first one after it.
const BREAK: u64 = 1000;

/// Keeps the recording. Dropping it waits until all orders are carried out.
pub trait Archive: Send {
    /// Has the [`Keeper`] take an order, without holding the room up.
    fn hand(&mut self, order: RecordingOrder);
}

/// A recording that the room goes on with.
pub struct Archived {
    pub archive: Box<dyn Archive>,
    /// Size of the recording in bytes; the [`Keeper`] updates it.
    pub size: Arc<AtomicUsize>,
    /// Milliseconds at the last state, if there was a recording before.
    pub last_at: Option<u64>,
}

/// The room's side of the recording.
pub(crate) struct Recorder {
    /// `None` if this room is not recorded.
    archive: Option<Box<dyn Archive>>,
    /// Size of the recording in bytes.
    size: Arc<AtomicUsize>,
    /// Each queued state holds a clone, so the reference count gives the length of the queue.
    waiting: Arc<()>,
    began: Moment,
    /// Milliseconds recorded before this room was opened.
    offset: u64,
    last: Option<Moment>,
    due: Option<Moment>,
    /// Addresses of the pictures in the last state, which the keeper already has.
    handed: Vec<String>,
    /// Clients with a picture or an attack result in the recording.
    seen: BTreeSet<ClientId>,
    /// Whether the recording may show other clients, from before the room was opened again.
    may_have_more: bool,
}

impl Recorder {
    pub(crate) fn new(archived: Option<Archived>, now: Moment) -> Self {
        let last_at = archived.as_ref().and_then(|archived| archived.last_at);
        let (archive, size) = archived.map(|archived| (archived.archive, archived.size)).unzip();
        Self {
            archive,
            size: size.unwrap_or_default(),
            waiting: Arc::new(()),
            began: now,
            offset: last_at.map_or(0, |at| at + BREAK),
            last: None,
            due: None,
            handed: Vec::new(),
            seen: BTreeSet::new(),
            may_have_more: last_at.is_some(),
        }
    }

    /// Notes a change in the room; the next state becomes due after the interval.
    pub(crate) fn changed(&mut self, now: Moment) {
        if self.archive.is_some() && self.due.is_none() {
            self.due = Some(self.last.map_or(now, |last| now.max(last + self.interval())));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due
    }

    pub(crate) fn record_if_due(&mut self, now: Moment, view: &Arc<RoomView>, pictures: &Pictures) {
        if self.due.is_some_and(|due| due <= now) {
            self.record(now, view, pictures);
        }
    }

    /// Records the last state of a room that ends, if anything has changed since.
    pub(crate) fn record_last(&mut self, now: Moment, view: &Arc<RoomView>, pictures: &Pictures) {
        if self.due.is_some() {
            self.record(now, view, pictures);
        }
    }

    fn record(&mut self, now: Moment, view: &Arc<RoomView>, pictures: &Pictures) {
        (self.due, self.last) = (None, Some(now));
        let Some(archive) = &mut self.archive else { return };
        if Arc::strong_count(&self.waiting) > MAX_WAITING {
            return;
        }
        let at = self.offset + u64::try_from((now - self.began).as_millis()).unwrap_or(u64::MAX);
        let shown: Vec<&str> = addresses(view).map(|shown| shown.address).collect();
        let new = shown.iter().filter(|address| !self.handed.iter().any(|handed| handed == *address));
        // Fetch the pictures now: none can have been forgotten since the view was made.
        let pictures = new.filter_map(|address| Some(((*address).to_owned(), pictures.get(address)?))).collect();
        let handed = shown.into_iter().map(str::to_owned).collect();
        self.seen.extend(addresses(view).map(|shown| shown.client));
        self.seen.extend(view.attacks.iter().map(|card| card.client));
        self.seen.extend(view.sum.iter().flat_map(|sum| sum.clients.iter().copied()));
        self.seen.extend(view.label.iter().map(|label| label.client));
        self.seen.extend(view.membership.iter().map(|card| card.client));
        archive.hand(RecordingOrder::State { at, view: Arc::clone(view), pictures, _waits: Arc::clone(&self.waiting) });
        self.handed = handed;
    }

    /// Removes a client's pictures and attack results, if it was ever shown. Other clients are skipped, because anyone
    /// can join without consenting.
    pub(crate) fn hide(&mut self, client: ClientId) {
        if self.seen.remove(&client) || self.may_have_more {
            self.forget(Forgotten::shown(client));
        }
    }

    /// Removes the picture of its own that a client showed, if it may be in the recording.
    pub(crate) fn hide_original(&mut self, client: ClientId) {
        if self.seen.contains(&client) || self.may_have_more {
            self.forget(Forgotten::original(client));
        }
    }

    pub(crate) fn forget(&mut self, forgotten: Forgotten) {
        if let Some(archive) = &mut self.archive {
            archive.hand(RecordingOrder::Forget(forgotten));
        }
    }

    /// Sends the packed file as it is now; drops `reply` if there is no recording.
    pub(crate) fn give(&mut self, reply: Reply<Result<Vec<u8>, RecordingError>>) {
        if let Some(archive) = &mut self.archive {
            archive.hand(RecordingOrder::Give(reply));
        }
    }

    fn interval(&self) -> Duration {
        let part = PARTS * self.size.load(Ordering::Relaxed) / MAX_BYTES;
        INTERVAL * (1 << part.min(PARTS))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use unmask_core::PictureAddress;
    use unmask_wire::view::AttackView;

    use super::*;

    /// What the keeper was handed: a state's time and the addresses of its new pictures, or nothing for a withdrawal.
    type Handed = Vec<Option<(u64, Vec<String>)>>;

    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<Handed>>);

    impl Shelf {
        fn take(&self) -> Handed {
            std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl Archive for Shelf {
        fn hand(&mut self, order: RecordingOrder) {
            let handed = match order {
                RecordingOrder::State { at, pictures, .. } => {
                    Some((at, pictures.into_iter().map(|(address, _)| address).collect()))
                }
                RecordingOrder::Forget(_) | RecordingOrder::Give(_) => None,
            };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(handed);
        }
    }

    fn recorder(last_at: Option<u64>) -> (Recorder, Shelf, Arc<AtomicUsize>) {
        let (shelf, size) = (Shelf::default(), Arc::<AtomicUsize>::default());
        let archived = Archived { archive: Box::new(shelf.clone()), size: Arc::clone(&size), last_at };
        (Recorder::new(Some(archived), Moment::START), shelf, size)
    }

    fn at(seconds: u64) -> Moment {
        Moment::after(Duration::from_secs(seconds))
    }

    /// A view with a card of this client, which shows this picture.
    fn view(client: u32, picture: Option<&PictureAddress>) -> Arc<RoomView> {
        let card = AttackView { client: ClientId(client), picture: picture.cloned(), ..AttackView::default() };
        Arc::new(RoomView { attacks: vec![card], ..RoomView::default() })
    }

    #[test]
    fn a_state_is_recorded_after_its_interval_with_the_pictures_that_are_new() {
        let (mut recorder, shelf, _) = recorder(None);
        let pictures = Pictures::default();
        let [first, second] = [1, 2].map(|byte| pictures.keep(ClientId(1), "april", "1-", vec![byte]));
        for (seconds, picture, shown) in [
            (5, &first, Some(vec![first.to_string()])),
            (6, &first, Some(Vec::new())),
            (7, &second, Some(vec![second.to_string()])),
        ] {
            recorder.changed(at(seconds));
            recorder.record_if_due(at(seconds), &view(1, Some(picture)), &pictures);
            assert_eq!(shelf.take(), [shown.map(|shown| (1000 * seconds, shown))]);
        }
        recorder.changed(at(7));
        assert_eq!(recorder.next_due(), Some(at(8)));
        recorder.record_if_due(at(7), &view(1, None), &pictures);
        assert!(shelf.take().is_empty());
        recorder.record_last(at(7), &view(1, None), &pictures);
        recorder.record_last(at(7), &view(1, None), &pictures);
        assert_eq!(shelf.take(), [Some((7000, Vec::new()))]);
    }

    #[test]
    fn a_recording_that_fills_up_is_recorded_less_often() {
        let (mut recorder, _, size) = recorder(None);
        let mut interval = |used: usize| {
            size.store(used, Ordering::Relaxed);
            recorder.record(at(10), &view(1, None), &Pictures::default());
            recorder.changed(at(10));
            recorder.next_due().map(|due| (due - at(10)).as_secs())
        };
        let most = MAX_BYTES;
        let found = [0, most / 8 - 1, most / 8, most / 2, most].map(&mut interval);
        assert_eq!(found, [1, 1, 2, 16, 256].map(Some));
    }

    #[test]
    fn only_who_was_shown_is_searched_for() {
        let pictures = Pictures::default();
        let (mut fresh, shelf, _) = recorder(None);
        fresh.record(at(1), &view(1, None), &pictures);
        shelf.take();
        fresh.hide(ClientId(2));
        fresh.hide_original(ClientId(2));
        assert!(shelf.take().is_empty());
        fresh.hide_original(ClientId(1));
        fresh.hide(ClientId(1));
        assert_eq!(shelf.take(), [None, None]);
        fresh.hide(ClientId(1));
        assert!(shelf.take().is_empty(), "nothing is left of it");
        let (mut resumed, shelf, _) = recorder(Some(4000));
        resumed.hide(ClientId(2));
        assert_eq!(shelf.take(), [None], "it may be from before");
        resumed.record(at(2), &view(1, None), &pictures);
        assert_eq!(shelf.take(), [Some((7000, Vec::new()))]);
    }
}
