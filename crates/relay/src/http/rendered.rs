//! The room as JSON, written and compressed once for all simultaneous requests.

use std::{
    io::Write,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use tracing::error;

use unmask_room::{Moment, Snapshot};

use super::coding::accepts;
use crate::clock::Clock;

/// Maximum age of the remaining time in the JSON.
const FRESH: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Json {
    text: Arc<str>,
    plain: Bytes,
    gzipped: OnceLock<Option<Bytes>>,
}

#[derive(Debug)]
struct Newest {
    snapshot: Snapshot,
    at: Moment,
    json: Arc<Json>,
}

/// A cache of the newest snapshot's JSON.
#[derive(Debug)]
pub(crate) struct Rendered {
    clock: Clock,
    newest: Mutex<Option<Newest>>,
}

impl Rendered {
    /// `clock` is the room's.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, newest: Mutex::default() }
    }

    /// Returns the snapshot as JSON; logs an error and returns `None` if it cannot be encoded.
    pub(crate) fn text(&self, snapshot: &Snapshot) -> Option<Arc<str>> {
        Some(Arc::clone(&self.json(snapshot)?.text))
    }

    pub(crate) fn answer(&self, snapshot: &Snapshot, request: &HeaderMap) -> Response {
        let Some(json) = self.json(snapshot) else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
        let headers = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-store"),
            (header::VARY, "accept-encoding"),
        ];
        match accepts(request, "gzip").then(|| json.gzipped()).flatten() {
            Some(gzipped) => (headers, [(header::CONTENT_ENCODING, "gzip")], gzipped).into_response(),
            None => (headers, json.plain.clone()).into_response(),
        }
    }

    fn json(&self, snapshot: &Snapshot) -> Option<Arc<Json>> {
        // Keep the lock, so that simultaneous requests wait for one encoding.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.moment();
        if let Some(newest) = newest.as_ref().filter(|newest| newest.is(snapshot, now)) {
            return Some(Arc::clone(&newest.json));
        }
        let text =
            snapshot.json(now).inspect_err(|error| error!("the room cannot be written as JSON: {error}")).ok()?;
        let json = Arc::new(Json { text: text.as_str().into(), plain: text.into(), gzipped: OnceLock::new() });
        *newest = Some(Newest { snapshot: snapshot.clone(), at: now, json: Arc::clone(&json) });
        Some(json)
    }
}

impl Newest {
    /// Whether this is the same snapshot with a recent enough remaining time.
    fn is(&self, snapshot: &Snapshot, now: Moment) -> bool {
        Arc::ptr_eq(&self.snapshot.view, &snapshot.view)
            && self.snapshot.deadline == snapshot.deadline
            && (snapshot.deadline.is_none() || now - self.at < FRESH)
    }
}

impl Json {
    /// Returns the gzipped JSON; `None` if compression fails.
    fn gzipped(&self) -> Option<Bytes> {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            Some(Bytes::from(encoder.write_all(&self.plain).and_then(|()| encoder.finish()).ok()?))
        };
        self.gzipped.get_or_init(compress).clone()
    }
}

#[cfg(test)]
mod tests {
    use unmask_wire::view::RoomView;

    use super::*;

    #[tokio::test]
    async fn a_snapshot_is_written_once() {
        let clock = Clock::start();
        let rendered = Rendered::new(clock);
        let snapshot =
            |round, deadline| Snapshot { view: Arc::new(RoomView { round, ..RoomView::default() }), deadline };
        let quiet = snapshot(1, None);
        let first = rendered.text(&quiet).unwrap();
        let zipped = rendered.json(&quiet).unwrap().gzipped().unwrap();
        tokio::time::sleep(2 * FRESH).await;
        assert!(Arc::ptr_eq(&first, &rendered.text(&quiet).unwrap()));
        assert_eq!(zipped.as_ptr(), rendered.json(&quiet).unwrap().gzipped().unwrap().as_ptr());

        let busy = snapshot(2, Some(clock.moment() + Duration::from_secs(60)));
        let first = rendered.text(&busy).unwrap();
        assert!(first.contains("\"round\":2"), "{first}");
        tokio::time::sleep(FRESH).await;
        assert_ne!(first, rendered.text(&busy).unwrap(), "the time left has changed");
    }
}
