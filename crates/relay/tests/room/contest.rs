//! The game in which students attack each other's masked updates, over real sockets.

use crate::support::{Client, Plan, Relay, gradient, layout, protect, state};
use unmask_core::{ClientId, MaskSeed, UpdateForm};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_lesson::{Poll, Question, Scene, Suspect};
use unmask_relay::{JournalConfig, RelayConfig};
use unmask_wire::{
    ClientMessage, LoanHeader, ORIGINAL_SIDE, ORIGINAL_VALUES, RelayMessage,
    view::{ClientState, Control, RoomView},
};

/// The beats of the scene that ask and answer the question.
const ATTACK: u8 = 2;
const SCORES: u8 = 3;

fn update(plan: &Plan, number: usize) -> ProtectedUpdate {
    let keys = KeyMaterial { seed: MaskSeed([number as u8; 32]), cipher: None };
    protect(plan, gradient(number), keys)
}

/// Shows a picture, sent once the relay has taken it.
async fn show(client: &mut Client) {
    client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &[0.5; ORIGINAL_VALUES]).await;
    assert_eq!(client.answer().await, RelayMessage::Original { is_shown: true });
}

/// Goes to the game with these suspects, and begins its round.
async fn ask(relay: &Relay, lenders: &[ClientId]) {
    relay.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() }).await;
    relay.control(Control::Lesson { scene: Scene::Attackers, beat: ATTACK }).await;
    let suspects = lenders.iter().map(|client| Suspect { client: *client, nickname: String::new() }).collect();
    relay.control(Control::AskPoll { poll: Poll { question: Question::WhoseUpdate, suspects, correct: None } }).await;
    relay.control(Control::OneRound).await;
}

/// Plays the game to the end of its round. Each of the clients sends an update of its own number.
async fn play(relay: &Relay, lenders: &[ClientId], clients: &mut [&mut Client]) {
    ask(relay, lenders).await;
    for client in clients {
        let plan = client.plan().await;
        let update = update(&plan, client.id.0 as usize);
        client.send_update(&plan, 1.0, update).await;
        assert!(matches!(client.answer().await, RelayMessage::Accepted { .. }));
    }
}

/// The next message about the game, with its values.
async fn news(client: &mut Client) -> (RelayMessage, Vec<f32>) {
    loop {
        let (message, values) = client.socket.message().await.expect("a message");
        if matches!(message, RelayMessage::Loan(_) | RelayMessage::LoanEnded { .. } | RelayMessage::Scored { .. }) {
            return (message, values);
        }
    }
}

/// Whose update the client gets, checked against what that client sent.
async fn owner(client: &mut Client, lenders: &[ClientId]) -> ClientId {
    let (message, values) = news(client).await;
    let RelayMessage::Loan(LoanHeader { poll: 1, round: 1, form, defence, samples: 1, .. }) = message else {
        panic!("{message:?} instead of a loan");
    };
    let UpdateForm::Masked { seed, .. } = form else { panic!("{form:?} instead of a mask") };
    let owner = *lenders.iter().find(|lender| lender.0 == u32::from(seed.0[0])).expect("a lender");
    let plain = PlainUpdate { values: gradient(owner.0 as usize), reference: None };
    let sent = defence.protect(&layout(), plain, KeyMaterial { seed, cipher: None }).unwrap();
    assert_eq!(ProtectedUpdate { form, values }, sent, "exactly as its owner sent it");
    owner
}

async fn say(client: &mut Client, message: ClientMessage) {
    client.socket.send(&message, &[]).await;
    client.socket.send(&ClientMessage::Ping, &[]).await;
    while client.socket.message().await.expect("a message").0 != RelayMessage::Pong {}
}

fn position(lenders: &[ClientId], owner: ClientId) -> u16 {
    lenders.iter().position(|lender| *lender == owner).unwrap() as u16
}

#[tokio::test]
async fn each_phone_attacks_another_ones_update_and_scores() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    let (mut cleo, mut dan) = (relay.client("Cleo").await, relay.client("Dan").await);
    for lender in [&mut ada, &mut bob] {
        show(lender).await;
    }
    let room = relay.room().await;
    assert!(room.clients.iter().all(|client| client.lends_update), "{:?}", room.clients);
    let lenders = [ada.id, bob.id];
    play(&relay, &lenders, &mut [&mut ada, &mut bob, &mut cleo, &mut dan]).await;
    assert_eq!(owner(&mut ada, &lenders).await, bob.id);
    assert_eq!(owner(&mut bob, &lenders).await, ada.id);
    let owners = [owner(&mut cleo, &lenders).await, owner(&mut dan, &lenders).await];
    assert_ne!(owners[0], owners[1], "each update goes to as many");

    // One finds it before the gaps, one after them, one never, one does not guess.
    let [cleos, dans] = owners.map(|owner| position(&lenders, owner));
    say(&mut cleo, ClientMessage::Vote { poll: 1, answer: cleos }).await;
    say(&mut cleo, ClientMessage::KnowGaps { poll: 1 }).await;
    say(&mut dan, ClientMessage::Vote { poll: 1, answer: 1 - dans }).await;
    say(&mut dan, ClientMessage::KnowGaps { poll: 1 }).await;
    say(&mut dan, ClientMessage::Vote { poll: 1, answer: dans }).await;
    say(&mut ada, ClientMessage::Vote { poll: 1, answer: 0 }).await;
    // A new socket of the same student gets the same update.
    let mut cleo = Client::join(&relay.running, "Cleo", Some(cleo.ticket)).await;
    assert_eq!(owner(&mut cleo, &lenders).await, owners[0]);

    assert_eq!(relay.room().await.podium, None);
    relay.control(Control::Lesson { scene: Scene::Attackers, beat: SCORES }).await;
    relay.control(Control::ClosePoll).await;
    for (client, owner, points) in [(&mut cleo, cleos, 2), (&mut dan, dans, 1), (&mut ada, 1, 0), (&mut bob, 0, 0)] {
        assert_eq!(news(client).await.0, RelayMessage::Scored { poll: 1, owner, points }, "{}", client.nickname);
    }
    let podium = relay.room_when("a podium", |room| room.podium.is_some()).await.podium.unwrap();
    let winners: Vec<_> = podium.winners.iter().map(|it| (it.nickname.as_str(), it.place, it.points)).collect();
    assert_eq!(winners, [("Cleo", 1, 2), ("Dan", 2, 1)]);
    assert_eq!((podium.attackers, podium.found_before, podium.found, podium.suspects), (3, 1, 2, 2));

    // The updates are gone: a newcomer gets none.
    let mut eve = relay.client("Eve").await;
    relay.control(Control::Lesson { scene: Scene::Patience, beat: 0 }).await;
    eve.lesson_when("another scene", |lesson| lesson.scene == Scene::Patience).await;
    say(&mut eve, ClientMessage::KnowGaps { poll: 1 }).await;
    assert_eq!(relay.room().await.podium, None);
}

#[tokio::test]
async fn a_withdrawn_update_is_not_handed_out() {
    let relay = Relay::start().await;
    let (mut ada, mut bob, mut cleo) =
        (relay.client("Ada").await, relay.client("Bob").await, relay.client("Cleo").await);
    for lender in [&mut ada, &mut bob] {
        show(lender).await;
    }
    let lenders = [ada.id, bob.id];
    // Bob withdraws before the round, and Ada when Cleo has her update.
    say(&mut bob, ClientMessage::Consent { may_show: true, may_lend: false }).await;
    play(&relay, &lenders, &mut [&mut ada, &mut bob, &mut cleo]).await;
    for borrower in [&mut bob, &mut cleo] {
        assert_eq!(owner(borrower, &lenders).await, ada.id);
    }
    assert_eq!(news(&mut ada).await.0, RelayMessage::LoanEnded { poll: 1 }, "there is only its own");
    say(&mut cleo, ClientMessage::Vote { poll: 1, answer: 0 }).await;
    let voters = |wanted| move |room: &RoomView| room.lesson.poll.as_ref().is_some_and(|poll| poll.voters == wanted);
    relay.room_when("a vote", voters(1)).await;
    say(&mut ada, ClientMessage::Consent { may_show: true, may_lend: false }).await;
    for borrower in [&mut bob, &mut cleo] {
        assert_eq!(news(borrower).await.0, RelayMessage::LoanEnded { poll: 1 });
    }
    let room = relay.room_when("no vote about a withdrawn update", voters(0)).await;
    assert!(!room.clients.iter().any(|client| client.nickname != "Cleo" && client.lends_update));
    let mut dan = relay.client("Dan").await;
    assert_eq!(news(&mut dan).await.0, RelayMessage::LoanEnded { poll: 1 });
}

/// Hiding the picture, leaving and deletion withdraw the update too.
#[tokio::test]
async fn an_update_goes_with_its_owner() {
    for way in ["hide", "leave", "forget", "remove", "consent"] {
        let relay = Relay::start().await;
        let (mut ada, mut bob, mut cleo) =
            (relay.client("Ada").await, relay.client("Bob").await, relay.client("Cleo").await);
        for lender in [&mut ada, &mut bob] {
            show(lender).await;
        }
        let lenders = [ada.id, bob.id];
        play(&relay, &lenders, &mut [&mut ada, &mut bob, &mut cleo]).await;
        assert_eq!(owner(&mut bob, &lenders).await, ada.id);
        let before = owner(&mut cleo, &lenders).await;
        match way {
            "hide" => ada.socket.send(&ClientMessage::HideOriginal, &[]).await,
            "forget" => ada.socket.send(&ClientMessage::Forget, &[]).await,
            "consent" => ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: true }, &[]).await,
            "remove" => relay.control(Control::Remove { client: ada.id }).await,
            _ => {
                drop(ada);
                relay.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone)).await;
            }
        }
        assert_eq!(news(&mut bob).await.0, RelayMessage::LoanEnded { poll: 1 }, "{way}: only its own is left");
        if before != bob.id {
            assert_eq!(owner(&mut cleo, &lenders).await, bob.id, "{way}: another one instead");
        }
    }
}

/// A phone that was away keeps no picture of a lender that has withdrawn since.
#[tokio::test]
async fn a_borrower_that_comes_back_learns_of_a_withdrawal() {
    let relay = Relay::start().await;
    let (mut ada, mut bob, mut cleo) =
        (relay.client("Ada").await, relay.client("Bob").await, relay.client("Cleo").await);
    for lender in [&mut ada, &mut bob] {
        show(lender).await;
    }
    let lenders = [ada.id, bob.id];
    play(&relay, &lenders, &mut [&mut ada, &mut bob, &mut cleo]).await;
    let (mut lender, _other) = if owner(&mut cleo, &lenders).await == ada.id { (ada, bob) } else { (bob, ada) };
    relay.control(Control::ClosePoll).await;
    let ticket = cleo.ticket;
    drop(cleo);
    relay.room_when("Cleo gone", |room| state(room, "Cleo") == Some(ClientState::Gone)).await;
    say(&mut lender, ClientMessage::Consent { may_show: true, may_lend: false }).await;
    let mut cleo = Client::join(&relay.running, "Cleo", Some(ticket)).await;
    assert_eq!(news(&mut cleo).await.0, RelayMessage::LoanEnded { poll: 1 });
    relay.control(Control::Lesson { scene: Scene::Attackers, beat: SCORES }).await;
    assert!(matches!(news(&mut cleo).await.0, RelayMessage::Scored { poll: 1, .. }));
}

#[tokio::test]
async fn a_picture_hidden_during_the_round_is_not_attacked() {
    let relay = Relay::start().await;
    let (mut ada, mut bob, mut cleo) =
        (relay.client("Ada").await, relay.client("Bob").await, relay.client("Cleo").await);
    for lender in [&mut ada, &mut bob] {
        show(lender).await;
    }
    let lenders = [ada.id, bob.id];
    ask(&relay, &lenders).await;
    for client in [&mut bob, &mut ada, &mut cleo] {
        let plan = client.plan().await;
        if client.nickname == "Bob" {
            say(client, ClientMessage::HideOriginal).await;
        }
        let update = update(&plan, client.id.0 as usize);
        client.send_update(&plan, 1.0, update).await;
    }
    for borrower in [&mut bob, &mut cleo] {
        assert_eq!(owner(borrower, &lenders).await, ada.id);
    }
    assert_eq!(news(&mut ada).await.0, RelayMessage::LoanEnded { poll: 1 }, "there is only its own");
}

/// A withdrawal could not reach those who borrowed from the relay before.
#[tokio::test]
async fn the_game_ends_with_the_relay() {
    let journal = |config: &mut RelayConfig| config.room.journal = Some(JournalConfig::default());
    let relay = Relay::with(journal).await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    for lender in [&mut ada, &mut bob] {
        show(lender).await;
    }
    let lenders = [ada.id, bob.id];
    play(&relay, &lenders, &mut [&mut ada, &mut bob]).await;
    assert_eq!(owner(&mut ada, &lenders).await, bob.id);
    drop((ada, bob));
    let relay = Relay::within(relay.stop().await, journal).await;
    relay.log_line("The game about each other's updates ended with the relay").await;
    let lesson = relay.room().await.lesson;
    assert_eq!((lesson.scene, lesson.beat, lesson.poll), (Scene::Attackers, ATTACK, None));
}

/// Only what the consent names is lent: masked updates.
#[tokio::test]
async fn an_update_without_a_mask_is_not_lent() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    for lender in [&mut ada, &mut bob] {
        show(lender).await;
    }
    let suspects = [ada.id, bob.id].map(|client| Suspect { client, nickname: String::new() }).to_vec();
    relay.control(Control::Lesson { scene: Scene::Attackers, beat: ATTACK }).await;
    relay.control(Control::AskPoll { poll: Poll { question: Question::WhoseUpdate, suspects, correct: None } }).await;
    relay.control(Control::OneRound).await;
    for client in [&mut ada, &mut bob] {
        let plan = client.plan().await;
        client.update(&plan, gradient(1), [1; 32]).await;
    }
    relay.log_line("Round 1 brought no update to attack").await;
    let mut late = relay.client("Late").await;
    for client in [&mut ada, &mut bob, &mut late] {
        assert_eq!(news(client).await.0, RelayMessage::LoanEnded { poll: 1 }, "phones do not wait in vain");
    }
}
