//! Plays a recording.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use unmask_wire::view::RoomView;

use crate::{
    line::{Line, Picture, Written},
    recording::{Recording, WORK},
    shown::{embed, take_out_addresses},
};

/// The room at one moment of a recording. A step forward costs only the change; a jump back starts from the beginning.
#[derive(Debug)]
pub struct Player {
    recording: Recording,
    /// The states' times in milliseconds, ascending, and their places among the lines.
    states: Vec<(u64, usize)>,
    pictures: BTreeMap<String, usize>,
    made: usize,
    state: Value,
}

impl Player {
    /// A player before the first state.
    pub fn new(recording: Recording) -> Self {
        let (mut states, mut pictures) = (Vec::new(), BTreeMap::new());
        for (index, line) in recording.lines().iter().enumerate() {
            match line {
                Line::State { at, .. } => states.push((*at, index)),
                Line::Picture(Picture { address, .. }) => drop(pictures.insert(address.clone(), index)),
            }
        }
        Self { recording, states, pictures, made: 0, state: Value::Null }
    }

    /// Time from the start to the last state, in milliseconds.
    pub fn length(&self) -> u64 {
        self.states.last().map_or(0, |(at, _)| *at)
    }

    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Start of the lesson, in seconds since 1970.
    pub fn began(&self) -> u64 {
        self.recording.began()
    }

    /// Goes to the state at `at` milliseconds after the start, or to the first one. Returns whether the state changed.
    pub fn seek(&mut self, at: u64) -> bool {
        let wanted = self.states.partition_point(|(time, _)| *time <= at).max(1).min(self.states.len());
        self.go_to(wanted)
    }

    /// Goes to the next state; returns whether there is one.
    pub fn step(&mut self) -> bool {
        self.made < self.states.len() && self.go_to(self.made + 1)
    }

    /// Start of the current state, in milliseconds.
    pub fn time(&self) -> u64 {
        self.made.checked_sub(1).and_then(|last| self.states.get(last)).map_or(0, |(at, _)| *at)
    }

    /// The room, with its pictures embedded as `data:` URLs. A removed picture is absent, and so is what leads to a room:
    /// other programs write files too.
    ///
    /// # Errors
    /// In words, if the state does not describe a room.
    pub fn room(&self) -> Result<RoomView, String> {
        let mut room = self.recorded()?;
        take_out_addresses(&mut room);
        embed(&mut room, |address| self.picture(address));
        Ok(room)
    }

    /// The room with its pictures' addresses as recorded; [`picture`](Self::picture) returns the pictures.
    ///
    /// # Errors
    /// In words, if the state does not describe a room.
    pub fn recorded(&self) -> Result<RoomView, String> {
        RoomView::deserialize(&self.state).map_err(|error| {
            format!("what was recorded after {:.1} s is not a state of a room ({error})", self.time() as f64 / 1000.0)
        })
    }

    pub fn picture(&self, address: &str) -> Option<&[u8]> {
        match self.recording.lines().get(*self.pictures.get(address)?)? {
            Line::Picture(picture) => Some(&picture.png),
            Line::State { .. } => None,
        }
    }

    fn go_to(&mut self, wanted: usize) -> bool {
        if wanted == self.made {
            return false;
        }
        if wanted < self.made {
            (self.made, self.state) = (0, Value::Null);
        }
        // The recording was checked when it was read, or this program wrote it.
        let mut work = WORK;
        for (_, index) in &self.states[self.made..wanted] {
            if let Some(Line::State { text, .. }) = self.recording.lines().get(*index)
                && let Ok(Written::State { change, .. }) = serde_json::from_str(text)
            {
                let _ = change.make(&mut self.state, &mut work);
            }
        }
        self.made = wanted;
        true
    }
}
