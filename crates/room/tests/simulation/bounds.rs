//! What a room holds after a long day of strangers who come, do what they can, and leave.

use std::{sync::Arc, time::Duration};

use unmask_core::{Architecture, VitPreset};
use unmask_journal::simulated::Disk;
use unmask_lesson::{Poll, Question};
use unmask_room::{
    JournalConfig, RoomConfig, RoomLimits, Size,
    bench::{Bench, Surroundings},
};
use unmask_wire::{ClientMessage, ORIGINAL_SIDE, ORIGINAL_VALUES, frames, view::Control};

/// More than any bound on clients.
const STRANGERS: u32 = 1200;
/// Bytes of a page's view of the room at most.
const VIEW: usize = 64 << 10;
/// Bytes of a journal's file at most, with a model of 35,000 weights.
const FILE: usize = 3 << 20;

fn say(bench: &mut Bench, socket: usize, message: &ClientMessage, values: &[f32]) {
    frames(message, values).unwrap().iter().for_each(|frame| bench.receive(socket, frame));
}

#[test]
fn strangers_fill_no_memory() {
    let disk = Disk::new(1);
    let config = RoomConfig {
        architecture: Architecture::from(VitPreset::Pico),
        journal: Some(JournalConfig::default()),
        limits: RoomLimits { clients: 30, ..RoomLimits::default() },
        seed: Some(1),
        ..RoomConfig::default()
    };
    let surroundings = Surroundings { disk: Some(Arc::new(disk.clone())), ..Surroundings::default() };
    let mut bench = Bench::open(config, surroundings).unwrap();
    let poll = Poll { question: Question::Numbers, suspects: Vec::new(), correct: None };
    bench.control(Control::AskPoll { poll }).unwrap();
    for number in 0..STRANGERS {
        let socket = bench.connect_from(number.into());
        let hello = ClientMessage::Hello {
            nickname: format!("A stranger with a long name {number}"),
            resume: None,
            device: "d".repeat(200),
            may_show: true,
            may_lend: true,
            is_robot: false,
            commitment: [0; 32],
            page: [0; 32],
        };
        say(&mut bench, socket, &hello, &[]);
        say(&mut bench, socket, &ClientMessage::Original { side: ORIGINAL_SIDE }, &[0.5; ORIGINAL_VALUES]);
        say(&mut bench, socket, &ClientMessage::Vote { poll: 1, answer: 1 }, &[]);
        match number % 3 {
            0 => bench.receive(socket, b"no message"),
            1 => bench.close(socket),
            _ => {
                let client = bench.view().clients.last().unwrap().id;
                bench.control(Control::Ban { client }).unwrap();
            }
        }
        if number % 100 == 0 {
            bench.pass(Duration::from_secs(1));
        }
    }
    let sizes: Vec<Size> = bench.sizes().collect();
    assert!(sizes.iter().all(|size| size.count <= size.most), "{sizes:#?}");
    // The bound holds what would grow.
    for what in ["former clients", "votes"] {
        let size = sizes.iter().find(|size| size.what == what).unwrap();
        assert_eq!(size.count, size.most, "{what}");
    }
    let view = serde_json::to_string(bench.view().as_ref()).unwrap().len();
    assert!(view <= VIEW, "{view} bytes of view");
    for (name, bytes) in disk.contents() {
        assert!(bytes.len() <= FILE, "{} bytes of {name}", bytes.len());
    }
}
