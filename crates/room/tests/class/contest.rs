//! The game in which students attack each other's masked updates.

use crate::support::{Class, Client, Plan, gradient, layout, protect, state};
use unmask_core::{ClientId, UpdateForm};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_lesson::{Poll, Question, Scene, Suspect};
use unmask_wire::{
    ClientMessage, LoanHeader, ORIGINAL_SIDE, ORIGINAL_VALUES, RelayMessage,
    view::{ClientState, Control, RoomView},
};

/// The beats of the scene that ask and answer the question.
const ATTACK: u8 = 2;
const SCORES: u8 = 3;

fn update(client: &Client, plan: &Plan) -> ProtectedUpdate {
    let keys = KeyMaterial { seed: client.seed(plan), cipher: None };
    protect(plan, gradient(client.id.0 as usize), keys)
}

/// Shows a picture, sent once the room has taken it.
fn show(client: &mut Client) {
    client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &[0.5; ORIGINAL_VALUES]);
    assert_eq!(client.answer(), RelayMessage::Original { is_shown: true, waits: false });
}

/// Goes to the game with these suspects, and begins its round.
fn ask(class: &Class, lenders: &[ClientId]) {
    class.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() });
    class.control(Control::Lesson { scene: Scene::Attackers, beat: ATTACK });
    let suspects = lenders.iter().map(|client| Suspect { client: *client, nickname: String::new() }).collect();
    class.control(Control::AskPoll { poll: Poll { question: Question::WhoseUpdate, suspects, correct: None } });
    class.control(Control::OneRound);
}

/// Plays the game to the end of its round. Each of the clients sends an update of its own number.
fn play(class: &Class, lenders: &[ClientId], clients: &mut [&mut Client]) {
    ask(class, lenders);
    for client in clients {
        let plan = client.plan();
        let update = update(client, &plan);
        client.send_update(&plan, 1.0, update);
        assert!(matches!(client.answer(), RelayMessage::Accepted { .. }));
    }
}

/// The next message about the game, with its values.
fn news(client: &mut Client) -> (RelayMessage, Vec<f32>) {
    loop {
        let (message, values) = client.socket.message().expect("a message");
        if matches!(message, RelayMessage::Loan(_) | RelayMessage::LoanEnded { .. } | RelayMessage::Scored { .. }) {
            return (message, values);
        }
    }
}

/// Whose update the client gets, checked against what that client sent.
fn owner(client: &mut Client, lenders: &[ClientId]) -> ClientId {
    let (message, values) = news(client);
    let RelayMessage::Loan(LoanHeader { poll: 1, round: 1, form, defence, samples: 1, .. }) = message else {
        panic!("{message:?} instead of a loan");
    };
    let UpdateForm::Masked { seed, .. } = form else { panic!("{form:?} instead of a mask") };
    let lent = ProtectedUpdate { form, values };
    let sent = |lender: &&ClientId| {
        let plain = PlainUpdate { values: gradient(lender.0 as usize), reference: None };
        defence.protect(&layout(), plain, KeyMaterial { seed, cipher: None }).unwrap() == lent
    };
    *lenders.iter().find(sent).expect("an update exactly as its owner sent it")
}

fn say(client: &mut Client, message: ClientMessage) {
    client.socket.send(&message, &[]);
    client.socket.send(&ClientMessage::Ping, &[]);
    while client.socket.message().expect("a message").0 != RelayMessage::Pong {}
}

fn position(lenders: &[ClientId], owner: ClientId) -> u16 {
    lenders.iter().position(|lender| *lender == owner).unwrap() as u16
}

#[test]
fn each_phone_attacks_another_ones_update_and_scores() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    let (mut cleo, mut dan) = (class.client("Cleo"), class.client("Dan"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    let room = class.room();
    assert!(room.clients.iter().all(|client| client.lends_update), "{:?}", room.clients);
    let lenders = [ada.id, bob.id];
    play(&class, &lenders, &mut [&mut ada, &mut bob, &mut cleo, &mut dan]);
    assert_eq!(owner(&mut ada, &lenders), bob.id);
    assert_eq!(owner(&mut bob, &lenders), ada.id);
    let owners = [owner(&mut cleo, &lenders), owner(&mut dan, &lenders)];
    assert_ne!(owners[0], owners[1], "each update goes to as many");

    // One finds it before the gaps, one after them, one never, one does not guess.
    let [cleos, dans] = owners.map(|owner| position(&lenders, owner));
    say(&mut cleo, ClientMessage::Vote { poll: 1, answer: cleos });
    say(&mut cleo, ClientMessage::KnowGaps { poll: 1 });
    say(&mut dan, ClientMessage::Vote { poll: 1, answer: 1 - dans });
    say(&mut dan, ClientMessage::KnowGaps { poll: 1 });
    say(&mut dan, ClientMessage::Vote { poll: 1, answer: dans });
    say(&mut ada, ClientMessage::Vote { poll: 1, answer: 0 });
    // A new socket of the same student gets the same update.
    let mut cleo = Client::join(&class, "Cleo", Some(cleo.ticket));
    assert_eq!(owner(&mut cleo, &lenders), owners[0]);

    assert_eq!(class.room().podium, None);
    class.control(Control::Lesson { scene: Scene::Attackers, beat: SCORES });
    class.control(Control::ClosePoll);
    for (client, owner, points) in [(&mut cleo, cleos, 2), (&mut dan, dans, 1), (&mut ada, 1, 0), (&mut bob, 0, 0)] {
        assert_eq!(news(client).0, RelayMessage::Scored { poll: 1, owner, points }, "{}", client.nickname);
    }
    let podium = class.room_when("a podium", |room| room.podium.is_some()).podium.unwrap();
    let winners: Vec<_> = podium.winners.iter().map(|it| (it.nickname.as_str(), it.place, it.points)).collect();
    assert_eq!(winners, [("Cleo", 1, 2), ("Dan", 2, 1)]);
    assert_eq!((podium.attackers, podium.found_before, podium.found, podium.suspects), (3, 1, 2, 2));

    // The updates are gone: a newcomer gets none.
    let mut eve = class.client("Eve");
    class.control(Control::Lesson { scene: Scene::Patience, beat: 0 });
    eve.lesson_when("another scene", |lesson| lesson.scene == Scene::Patience);
    say(&mut eve, ClientMessage::KnowGaps { poll: 1 });
    assert_eq!(class.room().podium, None);
}

#[test]
fn a_withdrawn_update_is_not_handed_out() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob, mut cleo) = (class.client("Ada"), class.client("Bob"), class.client("Cleo"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    let lenders = [ada.id, bob.id];
    // Bob withdraws before the round, and Ada when Cleo has her update.
    say(&mut bob, ClientMessage::Consent { may_show: true, may_lend: false });
    play(&class, &lenders, &mut [&mut ada, &mut bob, &mut cleo]);
    for borrower in [&mut bob, &mut cleo] {
        assert_eq!(owner(borrower, &lenders), ada.id);
    }
    assert_eq!(news(&mut ada).0, RelayMessage::LoanEnded { poll: 1 }, "there is only its own");
    say(&mut cleo, ClientMessage::Vote { poll: 1, answer: 0 });
    let voters = |wanted| move |room: &RoomView| room.lesson.poll.as_ref().is_some_and(|poll| poll.voters == wanted);
    class.room_when("a vote", voters(1));
    say(&mut ada, ClientMessage::Consent { may_show: true, may_lend: false });
    for borrower in [&mut bob, &mut cleo] {
        assert_eq!(news(borrower).0, RelayMessage::LoanEnded { poll: 1 });
    }
    let room = class.room_when("no vote about a withdrawn update", voters(0));
    assert!(!room.clients.iter().any(|client| client.nickname != "Cleo" && client.lends_update));
    let mut dan = class.client("Dan");
    assert_eq!(news(&mut dan).0, RelayMessage::LoanEnded { poll: 1 });
}

/// A phone that reads late gets nothing that was lent.
#[test]
fn an_update_that_waits_to_be_sent_goes_with_the_question() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob, mut cleo) = (class.client("Ada"), class.client("Bob"), class.client("Cleo"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    ask(&class, &[ada.id, bob.id]);
    for client in [&mut cleo, &mut ada, &mut bob] {
        let plan = client.plan();
        let update = update(client, &plan);
        client.send_update(&plan, 1.0, update);
        client.socket.reads(client.nickname != "Cleo");
    }
    assert!(matches!(news(&mut ada).0, RelayMessage::Loan(_)));
    class.control(Control::ClosePoll);
    cleo.socket.reads(true);
    cleo.socket.send(&ClientMessage::Ping, &[]);
    loop {
        match cleo.socket.message().expect("a message").0 {
            RelayMessage::Loan(_) => panic!("a loan after the question"),
            RelayMessage::Pong => break,
            _ => {}
        }
    }
}

/// Hiding the picture, leaving and deletion withdraw the update too.
#[test]
fn an_update_goes_with_its_owner() {
    for way in ["hide", "leave", "forget", "remove", "consent"] {
        let class = Class::unattacked(|_| {});
        let (mut ada, mut bob, mut cleo) = (class.client("Ada"), class.client("Bob"), class.client("Cleo"));
        for lender in [&mut ada, &mut bob] {
            show(lender);
        }
        let lenders = [ada.id, bob.id];
        play(&class, &lenders, &mut [&mut ada, &mut bob, &mut cleo]);
        assert_eq!(owner(&mut bob, &lenders), ada.id);
        let before = owner(&mut cleo, &lenders);
        match way {
            "hide" => ada.socket.send(&ClientMessage::HideOriginal, &[]),
            "forget" => ada.socket.send(&ClientMessage::Forget, &[]),
            "consent" => ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: true }, &[]),
            "remove" => class.control(Control::Remove { client: ada.id }),
            _ => {
                drop(ada);
                class.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone));
            }
        }
        assert_eq!(news(&mut bob).0, RelayMessage::LoanEnded { poll: 1 }, "{way}: only its own is left");
        if before != bob.id {
            assert_eq!(owner(&mut cleo, &lenders), bob.id, "{way}: another one instead");
        }
    }
}

/// A phone that was away keeps no picture of a lender that has withdrawn since.
#[test]
fn a_borrower_that_comes_back_learns_of_a_withdrawal() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob, mut cleo) = (class.client("Ada"), class.client("Bob"), class.client("Cleo"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    let lenders = [ada.id, bob.id];
    play(&class, &lenders, &mut [&mut ada, &mut bob, &mut cleo]);
    let (mut lender, _other) = if owner(&mut cleo, &lenders) == ada.id { (ada, bob) } else { (bob, ada) };
    class.control(Control::ClosePoll);
    let ticket = cleo.ticket;
    drop(cleo);
    class.room_when("Cleo gone", |room| state(room, "Cleo") == Some(ClientState::Gone));
    say(&mut lender, ClientMessage::Consent { may_show: true, may_lend: false });
    let mut cleo = Client::join(&class, "Cleo", Some(ticket));
    assert_eq!(news(&mut cleo).0, RelayMessage::LoanEnded { poll: 1 });
    class.control(Control::Lesson { scene: Scene::Attackers, beat: SCORES });
    assert!(matches!(news(&mut cleo).0, RelayMessage::Scored { poll: 1, .. }));
}

#[test]
fn a_picture_hidden_during_the_round_is_not_attacked() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob, mut cleo) = (class.client("Ada"), class.client("Bob"), class.client("Cleo"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    let lenders = [ada.id, bob.id];
    ask(&class, &lenders);
    for client in [&mut bob, &mut ada, &mut cleo] {
        let plan = client.plan();
        if client.nickname == "Bob" {
            say(client, ClientMessage::HideOriginal);
        }
        let update = update(client, &plan);
        client.send_update(&plan, 1.0, update);
    }
    for borrower in [&mut bob, &mut cleo] {
        assert_eq!(owner(borrower, &lenders), ada.id);
    }
    assert_eq!(news(&mut ada).0, RelayMessage::LoanEnded { poll: 1 }, "there is only its own");
}

/// Only what the consent names is lent: masked updates.
#[test]
fn an_update_without_a_mask_is_not_lent() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    let suspects = [ada.id, bob.id].map(|client| Suspect { client, nickname: String::new() }).to_vec();
    class.control(Control::Lesson { scene: Scene::Attackers, beat: ATTACK });
    class.control(Control::AskPoll { poll: Poll { question: Question::WhoseUpdate, suspects, correct: None } });
    class.control(Control::OneRound);
    for client in [&mut ada, &mut bob] {
        let plan = client.plan();
        client.update(&plan, gradient(1));
    }
    class.log_line("Round 1 brought no update to attack");
    let mut late = class.client("Late");
    for client in [&mut ada, &mut bob, &mut late] {
        assert_eq!(news(client).0, RelayMessage::LoanEnded { poll: 1 }, "phones do not wait in vain");
    }
}

/// Phones can attack only a mask with one rate.
#[test]
fn an_update_under_several_rates_is_not_lent() {
    let class = Class::unattacked(|config| config.defence = "random-binary:pos=0,0.3".parse().unwrap());
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    for lender in [&mut ada, &mut bob] {
        show(lender);
    }
    let suspects = [ada.id, bob.id].map(|client| Suspect { client, nickname: String::new() }).to_vec();
    class.control(Control::Lesson { scene: Scene::Attackers, beat: ATTACK });
    class.control(Control::AskPoll { poll: Poll { question: Question::WhoseUpdate, suspects, correct: None } });
    class.control(Control::OneRound);
    for client in [&mut ada, &mut bob] {
        let plan = client.plan();
        let update = update(client, &plan);
        client.send_update(&plan, 1.0, update);
    }
    class.log_line("Round 1 brought no update to attack");
}
