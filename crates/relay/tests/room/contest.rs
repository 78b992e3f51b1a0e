//! The game in which students attack each other's masked updates, when the relay ends.

use crate::support::{Client, Plan, Relay, gradient, layout, protect};
use unmask_core::{ClientId, UpdateForm};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_lesson::{Poll, Question, Scene, Suspect};
use unmask_relay::{JournalConfig, RelayConfig};
use unmask_wire::{ClientMessage, LoanHeader, ORIGINAL_SIDE, ORIGINAL_VALUES, RelayMessage, view::Control};

/// The beat of the scene that asks the question.
const ATTACK: u8 = 2;

fn update(client: &Client, plan: &Plan) -> ProtectedUpdate {
    let keys = KeyMaterial { seed: client.seed(plan), cipher: None };
    protect(plan, gradient(client.id.0 as usize), keys)
}

/// Shows a picture, sent once the relay has taken it.
async fn show(client: &mut Client) {
    client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &[0.5; ORIGINAL_VALUES]).await;
    assert_eq!(client.answer().await, RelayMessage::Original { is_shown: true, waits: false });
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
        let update = update(client, &plan);
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
    let lent = ProtectedUpdate { form, values };
    let sent = |lender: &&ClientId| {
        let plain = PlainUpdate { values: gradient(lender.0 as usize), reference: None };
        defence.protect(&layout(), plain, KeyMaterial { seed, cipher: None }).unwrap() == lent
    };
    *lenders.iter().find(sent).expect("an update exactly as its owner sent it")
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
