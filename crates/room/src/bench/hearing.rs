//! What clients and pages hear of a room.

use std::{sync::Arc, task::Poll};

use bytes::Bytes;
use unmask_wire::{Assembler, RelayMessage, view::RoomView};

use super::{Bench, Socket};
use crate::OutboxMessage;

impl Bench {
    /// Takes the messages waiting on a socket with their values, oldest first, as a client assembles them; leaves out
    /// shards. The last one on a socket that a relay closes is its goodbye.
    pub fn messages(&mut self, socket: usize) -> Vec<(RelayMessage, Vec<f32>)> {
        let mut messages = Vec::new();
        if let Some(place) = self.sockets.get_mut(socket)
            && let Some(Socket { admitted: Some((_, waiting)), .. }) = place
        {
            loop {
                match waiting.try_next() {
                    Poll::Ready(Some(message)) => messages.extend(assemble(message)),
                    Poll::Ready(None) => {
                        *place = None;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
        }
        let farewell = self.farewells.remove(&socket);
        messages.extend(farewell.map(|reason| (RelayMessage::Goodbye { reason }, Vec::new())));
        messages
    }

    /// Returns the view as a page gets it, with the time left in the round.
    pub fn timed_view(&self) -> RoomView {
        let effects = self.outside.lock();
        let left = effects.deadline.map(|at| (at - self.now.moment).as_secs_f32());
        RoomView { deadline_seconds: left, ..RoomView::clone(&effects.view) }
    }

    /// Whether a socket is open.
    pub fn is_open(&self, socket: usize) -> bool {
        self.sockets.get(socket).is_some_and(Option::is_some)
    }

    /// Returns the PNG that a page gets at this path.
    pub fn picture(&self, path: &str) -> Option<Bytes> {
        self.outside.pictures.get(path)
    }
}

fn assemble(message: OutboxMessage) -> Option<(RelayMessage, Vec<f32>)> {
    match message {
        OutboxMessage::Frames(frames) => {
            let mut assembler = Assembler::new(usize::MAX);
            frames.iter().find_map(|frame| assembler.push::<RelayMessage>(frame).ok().flatten())
        }
        OutboxMessage::Weights { header, model } => Some((Arc::unwrap_or_clone(header), model.state.weights.clone())),
        OutboxMessage::Shard(_) => None,
    }
}
