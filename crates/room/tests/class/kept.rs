//! What a room keeps on its disk, and whom it keeps out.

use std::{sync::Arc, task::Poll, time::Duration};

use crate::support::descent::{Descent, Source};
use unmask_core::{Architecture, VitPreset};
use unmask_journal::simulated::Disk;
use unmask_room::{
    Admission, Connection, DeviceId, Hello, Input, JournalConfig, OutboxMessage, Peer, Reply, RoomConfig, Waiting,
    bench::{Bench, End, Surroundings, reply},
};
use unmask_wire::{Assembler, ClientMessage, FORGOTTEN, RelayMessage, view::Control};

fn config() -> RoomConfig {
    RoomConfig { architecture: Architecture::from(VitPreset::Pico), ..RoomConfig::default() }
}

fn on_disk(disk: &Disk) -> Surroundings {
    Surroundings { disk: Some(Arc::new(disk.clone())), ..Surroundings::default() }
}

fn enter(bench: &mut Bench, nickname: &str, peer: Peer) -> Admission {
    come(bench, nickname, peer, None)
}

fn come(bench: &mut Bench, nickname: &str, peer: Peer, resume: Option<[u8; 16]>) -> Admission {
    let hello = Hello {
        nickname: nickname.to_owned(),
        resume,
        device: "test".to_owned(),
        may_show: true,
        may_lend: false,
        is_robot: false,
        commitment: [0; 32],
        page: [0; 32],
        peer,
        keys: u32::MAX,
        is_own: false,
    };
    let (reply, answer) = reply();
    bench.tell(Input::Hello { hello, reply });
    answer.try_recv().unwrap()
}

fn at(last: u8) -> Peer {
    Peer { address: Some([10, 0, 0, last].into()), device: None }
}

fn with_cookie(last: u8, cookie: u8) -> Peer {
    Peer { device: Some(DeviceId::of([cookie; 16])), ..at(last) }
}

fn nicknames(bench: &Bench) -> Vec<String> {
    bench.view().clients.iter().map(|client| client.nickname.clone()).collect()
}

fn says(bench: &Bench, part: &str) -> bool {
    bench.view().log.iter().any(|line| line.text.contains(part))
}

#[test]
fn a_banned_client_stays_out_by_its_address_until_bans_are_lifted() {
    let mut bench = Bench::open(config(), Surroundings::default()).unwrap();
    let (ada, _waits) = enter(&mut bench, "Ada", at(1)).unwrap();
    let _bob = enter(&mut bench, "Bob", at(2)).unwrap();
    bench.control(Control::Ban { client: ada.client }).unwrap();
    assert!(says(&bench, "The teacher banned Ada."));
    assert_eq!((nicknames(&bench), bench.view().banned), (vec!["Bob".to_owned()], 1));
    assert!(enter(&mut bench, "Eve", at(1)).is_err());
    bench.control(Control::LiftBans).unwrap();
    assert!(enter(&mut bench, "Eve", at(1)).is_ok());
}

#[test]
fn a_ban_takes_all_tabs_of_a_browser_and_nobody_else() {
    let mut bench = Bench::open(config(), Surroundings::default()).unwrap();
    let all: Vec<_> = [("Ada", with_cookie(1, 1)), ("Tab", with_cookie(1, 1)), ("Bob", with_cookie(1, 2))]
        .map(|(nickname, peer)| enter(&mut bench, nickname, peer).unwrap())
        .into();
    bench.control(Control::Ban { client: all[0].0.client }).unwrap();
    assert_eq!(nicknames(&bench), ["Bob"]);
    assert!(enter(&mut bench, "Ada", with_cookie(3, 1)).is_err());
    assert!(enter(&mut bench, "Eve", with_cookie(1, 3)).is_ok(), "the address is Bob's, too");
}

#[test]
fn a_program_is_not_banned_with_another_one() {
    let mut bench = Bench::open(config(), Surroundings::default()).unwrap();
    let all: Vec<_> = ["Ada", "Bob"].map(|nickname| enter(&mut bench, nickname, at(1)).unwrap()).into();
    bench.control(Control::Ban { client: all[0].0.client }).unwrap();
    assert_eq!(nicknames(&bench), ["Bob"]);
    assert!(says(&bench, "cannot tell it from other clients at its address"));
}

#[test]
fn a_lesson_goes_on_only_with_the_settings_it_began_with() {
    let disk = Disk::new(1);
    let given = |flag: &str| Some(JournalConfig { given: vec![flag.to_owned()], ..JournalConfig::default() });
    let mut bench = Bench::open(RoomConfig { journal: given("--batch"), ..config() }, on_disk(&disk)).unwrap();
    let _ada = enter(&mut bench, "Ada", at(1)).unwrap();
    bench.pass(Duration::from_secs(1));
    bench.restart(End::Orderly).unwrap();
    let open = |flag| Bench::open(RoomConfig { batch: 3, journal: given(flag), ..config() }, on_disk(&disk));
    let error = open("--batch").unwrap_err().to_string();
    assert!(error.contains("--batch 1") && error.contains("--batch 3"), "{error}");
    assert_eq!(open("--rule").unwrap().view().batch, 1);
}

/// The flag closes a door that nobody decided to leave open, and the door stays closed without the flag.
#[test]
fn the_flag_closes_a_door_that_nobody_chose_to_open() {
    let disk = Disk::new(1);
    let open = |approve_first| Bench::open(RoomConfig { approve_first, ..config() }, on_disk(&disk)).unwrap();
    for (flag, approves) in [(false, false), (true, true), (false, true)] {
        let mut bench = open(flag);
        assert_eq!((bench.view().approves, says(&bench, "--approve-first")), (approves, false));
        bench.pass(Duration::from_secs(1));
        bench.restart(End::Orderly).unwrap();
    }
}

/// The flag says how a lesson begins. What the teacher chose in it holds.
#[test]
fn the_teachers_last_choice_of_approval_outlasts_a_restart() {
    const LINE: &str = "--approve-first is for new lessons";
    for on in [true, false] {
        let config = RoomConfig { approve_first: true, ..config() };
        let mut bench = Bench::open(config, on_disk(&Disk::new(1))).unwrap();
        assert!(bench.view().approves);
        bench.control(Control::ApproveFirst { on }).unwrap();
        bench.pass(Duration::from_secs(1));
        bench.restart(End::Orderly).unwrap();
        assert_eq!((bench.view().approves, says(&bench, LINE)), (on, !on));
    }
}

/// The relay itself is honest again.
#[test]
fn careful_devices_stay_careful_after_a_restart() {
    let mut bench = Bench::open(config(), on_disk(&Disk::new(1))).unwrap();
    for on in [true, false] {
        bench.control(Control::Careful { on }).unwrap();
        bench.control(Control::Fish { class: Some(3) }).unwrap();
        assert_eq!((bench.view().is_careful, bench.view().fishes_for), (on, Some(3)));
        bench.pass(Duration::from_secs(1));
        bench.restart(End::Orderly).unwrap();
        assert_eq!((bench.view().is_careful, bench.view().fishes_for), (on, None));
    }
}

/// The room has forgotten the page, and one that was loaded again may have another picture.
#[test]
fn under_approval_a_picture_waits_again_after_a_restart() {
    let config = RoomConfig { approve_first: true, ..config() };
    let mut bench = Bench::open(config, on_disk(&Disk::new(1))).unwrap();
    let (ada, waiting) = enter(&mut bench, "Ada", at(1)).unwrap();
    bench.control(Control::Approve { client: None }).unwrap();
    let ticket = messages(&waiting).into_iter().find_map(|message| match message {
        RelayMessage::Welcome { resume, .. } => Some(resume),
        _ => None,
    });
    bench.control(Control::ShowPicture { client: Some(ada.client) }).unwrap();
    assert!(bench.view().clients[0].may_show);
    bench.pass(Duration::from_secs(1));
    bench.restart(End::Orderly).unwrap();
    let (again, _waiting) = come(&mut bench, "Ada", at(1), ticket).unwrap();
    let room = bench.view();
    let shown = &room.clients[0];
    assert_eq!((again.client, shown.may_show, shown.picture_waits), (ada.client, false, true));
    assert_eq!(room.target, None);
}

#[test]
fn a_search_goes_on_after_a_restart() {
    for is_on in [true, false] {
        let searches = Source(Descent::new(1, Duration::ZERO));
        let surroundings = Surroundings { searches: Some(Arc::new(searches)), ..on_disk(&Disk::new(1)) };
        let mut bench = Bench::open(config(), surroundings).unwrap();
        bench.control(Control::Search { on: is_on }).unwrap();
        bench.pass(Duration::from_secs(1));
        bench.restart(End::Orderly).unwrap();
        assert_eq!(bench.view().search, Some(is_on));
    }
}

fn forget(bench: &mut Bench, connection: Connection) {
    let (message, values, bytes, done) = (ClientMessage::Forget, Vec::new(), 0, Reply::new(|()| true));
    bench.tell(Input::Message { connection, message, values, bytes, done });
}

/// Takes the messages that wait for a client.
fn messages(waiting: &Waiting) -> Vec<RelayMessage> {
    let mut messages = Vec::new();
    while let Poll::Ready(Some(message)) = waiting.try_next() {
        let OutboxMessage::Frames(frames) = message else { continue };
        let mut assembler = Assembler::new(usize::MAX);
        let read = frames.iter().find_map(|frame| assembler.push::<RelayMessage>(frame).ok().flatten());
        messages.extend(read.map(|(message, _)| message));
    }
    messages
}

fn goodbye(waiting: &Waiting) -> Option<String> {
    messages(waiting).into_iter().find_map(|message| match message {
        RelayMessage::Goodbye { reason } => Some(reason),
        _ => None,
    })
}

#[test]
fn who_is_forgotten_hears_what_became_of_its_data() {
    const BUT: &str = "its disk cannot be written yet";
    let disk = Disk::new(1);
    let mut bench = Bench::open(config(), on_disk(&disk)).unwrap();
    let forgotten = |bench: &mut Bench, nickname: &str| {
        let (connection, waiting) = enter(bench, nickname, at(1)).unwrap();
        bench.pass(Duration::from_secs(1));
        forget(bench, connection);
        waiting
    };
    let waiting = forgotten(&mut bench, "Ada");
    bench.pass(Duration::from_secs(1));
    assert_eq!(goodbye(&waiting).as_deref(), Some(FORGOTTEN));
    disk.fill(true);
    let waiting = forgotten(&mut bench, "Bob");
    bench.pass(Duration::from_millis(10));
    assert!(goodbye(&waiting).is_some_and(|reason| reason.contains(BUT)), "at once");
    disk.fill(false);
    bench.pass(Duration::from_secs(10));
    bench.be_lazy(true);
    let waiting = forgotten(&mut bench, "Eve");
    bench.pass(Duration::from_secs(7));
    assert_eq!(goodbye(&waiting), None);
    bench.restart(End::Orderly).unwrap();
    assert!(goodbye(&waiting).is_some_and(|reason| reason.contains(BUT)));
}

#[test]
fn a_second_tab_gets_the_name_once_the_first_is_gone() {
    let mut bench = Bench::open(config(), Surroundings::default()).unwrap();
    let (first, _waits) = enter(&mut bench, "Ada", with_cookie(1, 1)).unwrap();
    let (_, waiting) = enter(&mut bench, "Ada", with_cookie(1, 1)).unwrap();
    assert_eq!(nicknames(&bench), ["Ada", "Ada 2"]);
    bench.tell(Input::Left { connection: first, reason: None });
    assert_eq!(nicknames(&bench), ["Ada"]);
    let renamed = RelayMessage::Renamed { nickname: "Ada".to_owned() };
    assert!(messages(&waiting).contains(&renamed));
}

#[test]
fn a_lesson_is_recorded_on_the_disk() {
    let disk = Disk::new(1);
    let surroundings = Surroundings { is_recorded: true, ..on_disk(&disk) };
    let mut bench = Bench::open(config(), surroundings).unwrap();
    let lines = || {
        let (_, text) = disk.contents().pop().expect("a recording");
        text.iter().filter(|byte| **byte == b'\n').count()
    };
    let _ada = enter(&mut bench, "Ada", at(1)).unwrap();
    bench.pass(Duration::from_secs(2));
    let before = lines();
    assert!(before > 1, "{before}");
    bench.control(Control::Lock { on: true }).unwrap();
    bench.pass(Duration::from_secs(2));
    assert!(lines() > before);
}

/// Programs have no cookie. Those of one address take some places, not the room.
#[test]
fn programs_of_one_address_do_not_fill_the_room() {
    let mut bench = Bench::open(config(), Surroundings::default()).unwrap();
    let came: Vec<_> = (0..60).filter_map(|number| enter(&mut bench, &format!("Bot{number}"), at(1)).ok()).collect();
    assert_eq!(came.len(), 32);
    assert!(says(&bench, "32 clients without a cookie come from this address already"));
    assert!(enter(&mut bench, "Ada", with_cookie(1, 1)).is_ok(), "a student at the same address");
    assert!(enter(&mut bench, "Bob", at(2)).is_ok());
    let here: Vec<_> = (0..60).map(|number| enter(&mut bench, &format!("Here{number}"), Peer::default())).collect();
    assert!(here.iter().all(Result::is_ok), "this machine is the teacher's");
}

#[test]
fn everybody_at_an_address_can_be_removed_at_once() {
    let mut bench = Bench::open(config(), Surroundings::default()).unwrap();
    let mut waits = Vec::new();
    for (nickname, peer) in [("Ada", at(1)), ("Bob", with_cookie(2, 7)), ("Eve", at(2)), ("Mallory", with_cookie(2, 8))]
    {
        waits.push(enter(&mut bench, nickname, peer).unwrap());
    }
    let room = bench.view();
    assert_eq!(room.clients.iter().map(|client| client.neighbours).collect::<Vec<_>>(), [1, 3, 3, 3]);
    let eve = room.clients[2].id;
    bench.control(Control::RemoveFrom { client: eve }).unwrap();
    assert_eq!(nicknames(&bench), ["Ada"]);
    let (_again, _waits) = enter(&mut bench, "Bob", with_cookie(2, 7)).unwrap();
}
