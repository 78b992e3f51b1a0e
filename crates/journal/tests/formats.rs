//! Lessons in each format that this version reads, as the versions that wrote them left them on the disk.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use unmask_core::{OptimiserKind, UpdateForm};
use unmask_journal::simulated::Disk;
use unmask_room::{
    FORMAT, JournalConfig, OLDEST_FORMAT, RoomConfig,
    bench::{Bench, End, Sent, Surroundings},
    digest,
};
use unmask_wire::{
    ClientMessage, PlanHeader, RelayMessage, frames,
    view::{ClientState, Control},
};

/// A model small enough for files of a few kB.
const MODEL: &str = "vit_patch4_dim4_depth1_heads1_8";
/// What the version of format 8 said of the weights after the lesson.
const WEIGHTS: &str = "6608732eb3fd7935daa3efa2eda401feec5b23244aae65236513073207085666";

fn folder(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/{format}"))
}

fn room(disk: &Disk, approve_first: bool) -> Bench {
    let config = RoomConfig {
        architecture: MODEL.parse().unwrap(),
        optimiser: OptimiserKind::Sgd { rate: 0.5 },
        attack_budget: Duration::ZERO,
        approve_first,
        seed: Some(1),
        journal: Some(JournalConfig::default()),
        ..RoomConfig::default()
    };
    let disk = Some(Arc::new(disk.clone()) as Arc<dyn unmask_room::bench::Disk>);
    Bench::open(config, Surroundings { disk, ..Surroundings::default() }).unwrap()
}

fn say(room: &mut Bench, socket: usize, message: &ClientMessage, values: &[f32]) {
    frames(message, values).unwrap().iter().for_each(|frame| room.receive(socket, frame));
}

fn join(room: &mut Bench, browser: u128, nickname: &str) -> usize {
    let socket = room.connect_from(browser);
    let (nickname, device) = (nickname.to_owned(), "CPU".to_owned());
    let hello = ClientMessage::Hello {
        nickname,
        resume: None,
        device,
        may_show: true,
        may_lend: false,
        is_robot: false,
        commitment: [0; 32],
        page: [0; 32],
    };
    say(room, socket, &hello, &[]);
    socket
}

fn plan(room: &mut Bench, socket: usize) -> (PlanHeader, usize) {
    let plans = room.sent(socket).into_iter().filter_map(|sent| match sent {
        Sent::Model(message, state) => match message.as_ref() {
            RelayMessage::Plan(plan) => Some((plan.clone(), state.weights.len())),
            _ => None,
        },
        _ => None,
    });
    plans.last().unwrap()
}

fn one_round(room: &mut Bench, sockets: [usize; 2]) {
    room.control(Control::OneRound).unwrap();
    for socket in sockets {
        let (plan, length) = plan(room, socket);
        let (round, policy) = (plan.round, plan.policy);
        let update =
            ClientMessage::Update { round, policy, loss: 2.25, samples: 1, form: UpdateForm::Dense, draw: None };
        say(room, socket, &update, &vec![0.01; length]);
    }
    room.pass(Duration::from_secs(5));
}

/// A lesson of two rounds: Ada and Bob train, Eve is banned, the room is locked.
fn lesson(disk: &Disk) {
    let mut room = room(disk, false);
    let [ada, bob, _] = [(1, "Ada"), (2, "Bob"), (3, "Eve")].map(|(browser, name)| join(&mut room, browser, name));
    let eve = room.view().clients.iter().find(|client| client.nickname == "Eve").unwrap().id;
    room.control(Control::Ban { client: eve }).unwrap();
    room.control(Control::Lock { on: true }).unwrap();
    (0..2).for_each(|_| one_round(&mut room, [ada, bob]));
    room.restart(End::Orderly).unwrap();
}

/// Writes the lesson in the present format. For a new format, run it once with that version, and never again.
#[test]
#[ignore = "needs a format without a lesson: cargo test --release -p unmask-journal --test formats -- --ignored"]
fn a_lesson_is_written_in_the_present_format() {
    let disk = Disk::new(1);
    lesson(&disk);
    fs::create_dir(folder(FORMAT)).unwrap();
    for (name, bytes) in disk.contents().into_iter().filter(|(name, _)| name.ends_with(".redb")) {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&bytes).unwrap();
        fs::write(folder(FORMAT).join(format!("{name}.zz")), packed.finish().unwrap()).unwrap();
    }
}

/// A disk with the lesson in this format.
fn written(format: u32) -> Disk {
    let disk = Disk::new(1);
    for name in ["journal-a.redb", "journal-b.redb"] {
        let packed = fs::read(folder(format).join(format!("{name}.zz"))).unwrap();
        let mut bytes = Vec::new();
        ZlibDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        disk.put(name, bytes);
    }
    disk
}

/// Nobody decided in this lesson that newcomers come in at once.
#[test]
fn the_flag_to_approve_first_holds_for_lessons_in_every_format() {
    for format in OLDEST_FORMAT..=FORMAT {
        for approve_first in [false, true] {
            assert_eq!(room(&written(format), approve_first).view().approves, approve_first, "format {format}");
        }
    }
}

#[test]
fn lessons_in_every_format_go_on() {
    for format in OLDEST_FORMAT..=FORMAT {
        let disk = written(format);
        let mut room = room(&disk, false);
        assert_eq!(digest(&room.model().state.weights), WEIGHTS, "format {format}");
        let view = room.view();
        assert_eq!((view.round, view.is_locked, view.banned), (2, true, 1));
        assert_eq!(
            view.losses.iter().map(|point| (point.round, point.loss)).collect::<Vec<_>>(),
            [(1, 2.25), (2, 2.25)]
        );
        let clients: Vec<_> =
            view.clients.iter().map(|client| (client.nickname.as_str(), client.state, client.updates)).collect();
        assert_eq!(clients, [("Ada", ClientState::Gone, 2), ("Bob", ClientState::Gone, 2)]);
        assert_eq!(view.log.iter().filter(|line| line.text == "The teacher banned Eve.").count(), 1, "{:?}", view.log);

        // After a restart, a round waits for those who come back.
        room.pass(Duration::from_secs(2));
        // It goes on, and this version writes it in its own format.
        room.control(Control::Lock { on: false }).unwrap();
        let [cleo, dan, eve] =
            [(4, "Cleo"), (5, "Dan"), (3, "Eve")].map(|(browser, name)| join(&mut room, browser, name));
        assert!(room.sent(eve).is_empty() && room.view().clients.iter().all(|client| client.nickname != "Eve"));
        one_round(&mut room, [cleo, dan]);
        let weights = room.model().state.weights.clone();
        room.restart(End::Orderly).unwrap();
        assert!(room.model().state.weights == weights && room.view().round == 3);
        room.restart(End::PowerCut).unwrap();
        assert_eq!((room.view().round, room.view().banned), (3, 1));
    }
}
