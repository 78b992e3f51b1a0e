//! Joining an outer federation.

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use unmask_core::Architecture;
use unmask_room::{Input, OuterInput, Snapshot};

/// Longest time for leaving the outer federation.
const GOODBYE: Duration = Duration::from_secs(6);

/// A federation of rooms that a room can join as a client. The room knows no more of its protocol.
pub trait OuterFederation: fmt::Debug + Send + Sync {
    /// The server's address, for the projector.
    fn server(&self) -> String;

    /// Joins, and has the room do what the server asks until the membership ends.
    ///
    /// # Errors
    /// If joining can never succeed. If the server does not answer, the membership retries.
    fn join(&self, room: JoiningRoom) -> BoxFuture<'static, anyhow::Result<Membership>>;
}

/// The outer federation's side of the room.
#[derive(Debug)]
pub struct JoiningRoom {
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) snapshots: watch::Receiver<Snapshot>,
}

#[derive(Debug, thiserror::Error)]
#[error("the room has ended")]
pub(crate) struct RoomEnded;

impl JoiningRoom {
    /// The architecture of the room's model.
    pub(crate) fn architecture(&self) -> Architecture {
        self.snapshots.borrow().view.architecture
    }

    pub(crate) async fn tell(&self, input: OuterInput) -> Result<(), RoomEnded> {
        let room = self.inputs.upgrade().ok_or(RoomEnded)?;
        room.send(Input::Outer(input)).await.map_err(|_| RoomEnded)
    }
}

/// A room's place in an outer federation, until it leaves or this is dropped.
#[derive(Debug)]
pub struct Membership {
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<()>,
}

impl Membership {
    pub(crate) async fn leave(self) {
        drop(self.stop);
        // If the server does not answer in time, the membership ends without a goodbye.
        let _ = timeout(GOODBYE, self.task).await;
    }
}
