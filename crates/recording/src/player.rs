//! A recording, played.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use unmask_wire::view::RoomView;

use crate::{
    line::{Line, Picture, Written},
    recording::{Recording, WORK},
    shown::readdress,
};

/// The room at one moment of a recording. Going on costs what has changed, going back begins anew.
#[derive(Debug)]
pub struct Player {
    recording: Recording,
    /// Where the states are among the lines, with their times in milliseconds, ascending.
    states: Vec<(u64, usize)>,
    /// Where the pictures are.
    pictures: BTreeMap<String, usize>,
    /// How many states have been made.
    made: usize,
    state: Value,
}

impl Player {
    /// Stands before the first state.
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

    /// From the recording's beginning to its last state, in milliseconds.
    pub fn length(&self) -> u64 {
        self.states.last().map_or(0, |(at, _)| *at)
    }

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// When the lesson began, in seconds since 1970.
    pub fn began(&self) -> u64 {
        self.recording.began()
    }

    /// Goes to the state that the room had `at` milliseconds after the beginning, or to the first one; whether that is
    /// another than before.
    pub fn seek(&mut self, at: u64) -> bool {
        let wanted = self.states.partition_point(|(time, _)| *time <= at).max(1).min(self.states.len());
        self.go_to(wanted)
    }

    /// Goes to the next state; whether there is one.
    pub fn step(&mut self) -> bool {
        self.made < self.states.len() && self.go_to(self.made + 1)
    }

    /// When the present state began, in milliseconds.
    pub fn time(&self) -> u64 {
        self.made.checked_sub(1).and_then(|last| self.states.get(last)).map_or(0, |(at, _)| *at)
    }

    /// The room, its pictures within it as `data:` addresses. A picture that was taken out is absent.
    ///
    /// # Errors
    /// If the state is none of a room, in words.
    pub fn room(&self) -> Result<RoomView, String> {
        let mut room = self.recorded()?;
        readdress(&mut room, |address| {
            Some(format!("data:image/png;base64,{}", STANDARD.encode(self.picture(address)?)))
        });
        Ok(room)
    }

    /// The room with its pictures' addresses as they are in the recording; [`picture`](Self::picture) has the pictures.
    ///
    /// # Errors
    /// If the state is none of a room, in words.
    pub fn recorded(&self) -> Result<RoomView, String> {
        RoomView::deserialize(&self.state).map_err(|error| {
            format!("what was recorded after {:.1} s is no state of a room ({error})", self.time() as f64 / 1000.0)
        })
    }

    /// A picture as PNG, by its address.
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
        // A recording was checked when it was read, or is of this program's own making.
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
