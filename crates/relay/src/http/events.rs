//! The room as a stream of server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures_util::stream;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use unmask_room::Snapshot;

use super::rendered::Rendered;

/// Minimum time between two events. Changes within it are merged.
const COALESCE: Duration = Duration::from_millis(200);
/// Maximum time between two events while a round runs.
const BEAT: Duration = Duration::from_secs(1);

/// Renders the room once for all listeners after each change, until the room ends.
pub(crate) async fn publish(
    mut snapshots: watch::Receiver<Snapshot>,
    events: watch::Sender<Arc<str>>,
    rendered: Arc<Rendered>,
) {
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        if events.receiver_count() > 0
            && let Some(json) = rendered.text(&snapshot)
        {
            events.send_replace(json);
        }
        let beat = Instant::now() + BEAT;
        sleep(COALESCE).await;
        tokio::select! {
            changed = snapshots.changed() => if changed.is_err() { break },
            () = sleep_until(beat), if snapshot.deadline.is_some() => {}
        }
    }
}

/// `GET /api/events`: the current room, then every change.
pub(crate) fn stream(first: Option<Arc<str>>, events: watch::Receiver<Arc<str>>) -> Response {
    let stream = stream::unfold((first, events), |(first, mut events)| async move {
        let json = match first {
            Some(json) => json,
            None => {
                events.changed().await.ok()?;
                Arc::clone(&events.borrow_and_update())
            }
        };
        Some((Ok::<_, Infallible>(Event::default().data(json)), (None, events)))
    });
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}
