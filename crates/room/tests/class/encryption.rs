//! Rooms whose model a client encrypts: what is said, and the key that a client gives away.

use crate::support::{Class, gradient};
use unmask_wire::{
    ClientMessage, RelayMessage,
    view::{Control, Phase},
};

const PASSPHRASE: &str = "seven grey herons";

fn defence(name: &str) -> Control {
    Control::Defence { defence: name.parse().unwrap() }
}

#[test]
fn a_change_to_or_from_encryption_says_what_becomes_of_the_model() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(defence("encrypted"));
    class.log_line("from the next round on; a client encrypts the model first");
    class.control(Control::OneRound);
    class.log_line("Ada is asked to encrypt the model.");
    ada.encrypted_round(PASSPHRASE, gradient(1));
    class.room_when("the end of the round", |room| room.losses.len() == 1);
    class.control(defence("none"));
    class.log_line("the model begins with new weights, since the relay cannot decrypt the old ones");
    class.control(defence("encrypted:keyed"));
    class.log_line("which a client makes and encrypts");
    class.control(Control::OneRound);
    class.log_line("Ada is asked to make a model and encrypt it.");
}

#[test]
fn a_plain_defence_after_another_says_nothing_of_the_model() {
    let class = Class::start();
    class.control(defence("random-binary:0.5"));
    class.control(defence("none"));
    let room = class.room();
    assert!(!room.log.iter().any(|line| line.text.contains("the model begins")), "{:?}", room.log);
}

#[test]
fn nobody_with_the_passphrase_locks_the_room() {
    let class = Class::with(|config| config.defence = "encrypted".parse().unwrap());
    let mut ada = class.client("Ada");
    class.control(Control::Start);
    for _ in 0..2 {
        let policy = ada.next("seal", |message, _| match message {
            RelayMessage::Seal { policy, .. } => Some(policy),
            _ => None,
        });
        let reason = "this client has no passphrase yet".to_owned();
        ada.socket.send(&ClientMessage::Unable { round: 0, policy, reason, is_locked: true }, &[]);
    }
    let room = class.room_when("the locked room", |room| room.phase == Phase::Locked);
    let lines = room.log.iter().filter(|line| line.text.contains("Ada cannot encrypt the model")).count();
    assert_eq!(lines, 1, "{:?}", room.log);
}

#[test]
fn the_right_key_alone_is_given_away_and_forgotten() {
    let class = Class::with(|config| config.defence = "encrypted".parse().unwrap());
    let mut ada = class.client("Ada");
    let collude = |passphrase: Option<&str>| Control::Collude { passphrase: passphrase.map(str::to_owned) };
    assert!(class.refusal_of(&collude(Some(PASSPHRASE))).contains("not encrypted"));
    class.control(Control::OneRound);
    ada.encrypted_round(PASSPHRASE, gradient(1));
    assert!(class.refusal_of(&collude(Some("six grey herons"))).contains("not the passphrase"));
    assert!(!class.room().has_key);
    class.control(collude(Some(PASSPHRASE)));
    assert!(class.room().has_key);
    class.control(collude(None));
    assert!(!class.room().has_key);
    class.log_line("The relay has forgotten the key of the room.");
    class.control(collude(None));
    let said = class.room().log.iter().filter(|line| line.text.contains("has forgotten the key")).count();
    assert_eq!(said, 1);
}
