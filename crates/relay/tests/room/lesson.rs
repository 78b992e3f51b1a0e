//! The lesson: pictures that clients show, and what a restart leaves of it.

use crate::support::{Client, Relay, http_bytes, view};
use unmask_lesson::{Poll, Question, Scene};
use unmask_relay::{JournalConfig, RelayConfig, Running};
use unmask_wire::{
    ClientMessage, ORIGINAL_SIDE, ORIGINAL_VALUES, RelayMessage,
    view::{Control, RoomView},
};

fn is_safe() -> Poll {
    Poll { question: Question::Safe, suspects: Vec::new(), correct: Some(1) }
}

async fn vote(client: &mut Client, poll: u32, answer: u16) {
    client.socket.send(&ClientMessage::Vote { poll, answer }, &[]).await;
}

/// Waits until the relay has read everything this client sent.
async fn is_heard(client: &mut Client) {
    client.socket.send(&ClientMessage::Ping, &[]).await;
    assert_eq!(client.answer().await, RelayMessage::Pong);
}

async fn voters(relay: &Relay, wanted: u32) -> RoomView {
    let has_voters = |room: &RoomView| room.lesson.poll.as_ref().is_some_and(|poll| poll.voters == wanted);
    relay.room_when("the votes", has_voters).await
}

/// Sends a picture of this grey, and returns its address once the room shows it.
async fn show(relay: &Relay, client: &mut Client, grey: u8) -> String {
    let values = [f32::from(grey) / 255.0; ORIGINAL_VALUES];
    client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &values).await;
    assert_eq!(client.answer().await, RelayMessage::Original { is_shown: true, waits: false });
    let nickname = client.nickname.clone();
    let room = relay.room_when("an original", |room| view(room, &nickname).original.is_some()).await;
    view(&room, &nickname).original.clone().unwrap().into()
}

async fn get(running: &Running, path: &str, secret: &str) -> (u16, Vec<u8>) {
    let bearer = format!("Bearer {secret}");
    let (status, _, body) = http_bytes(running, "GET", path, &[("authorization", &bearer)], "").await;
    (status, body)
}

#[tokio::test]
async fn an_original_is_for_projector_and_teacher() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    let first = show(&relay, &mut ada, 100).await;
    let path = show(&relay, &mut ada, 200).await;
    let running = &relay.running;
    assert_eq!(get(running, &first, running.token()).await.0, 404, "{first} is not the newest");
    for (secret, wanted) in [(&*running.room_key(), 403), (running.projector_secret(), 200), (running.token(), 200)] {
        assert_eq!(get(running, &path, secret).await.0, wanted, "{secret}");
    }
    let (_, png) = get(running, &path, running.projector_secret()).await;
    let picture = unmask_data::decode(&png).unwrap();
    assert_eq!((picture.width(), picture.height(), picture.rgb()), (32, 32, [200; ORIGINAL_VALUES].as_slice()));
}

/// Neither of the journal's files restores a forgotten client.
#[tokio::test]
async fn who_is_forgotten_stays_forgotten() {
    let with_journal = |config: &mut RelayConfig| config.room.journal = Some(JournalConfig::default());
    let relay = Relay::with(with_journal).await;
    let mut ada = relay.client("Ada").await;
    let _bob = relay.client("Bob").await;
    ada.socket.send(&ClientMessage::Forget, &[]).await;
    assert!(ada.socket.goodbye().await.contains("deleted"));
    let relay = Relay::within(relay.stop().await, with_journal).await;
    let room = relay.room().await;
    assert_eq!(room.clients.iter().map(|client| client.nickname.as_str()).collect::<Vec<_>>(), ["Bob"]);
    assert!(room.log.iter().all(|line| !line.text.contains("Ada")), "{:?}", room.log);
    assert!(room.log.iter().any(|line| line.text == "A client had its data deleted."));
    let back = Client::join(&relay.running, "Zoe", Some(ada.ticket)).await;
    assert!(back.id != ada.id);
}

/// Scene, poll and votes survive a restart; originals that clients showed do not.
#[tokio::test]
async fn the_lesson_goes_on_after_a_restart() {
    let with_journal = |config: &mut RelayConfig| config.room.journal = Some(JournalConfig::default());
    let relay = Relay::with(with_journal).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Lesson { scene: Scene::Guess, beat: 1 }).await;
    relay.control(Control::AskPoll { poll: is_safe() }).await;
    vote(&mut ada, 1, 1).await;
    voters(&relay, 1).await;
    show(&relay, &mut ada, 9).await;
    let before = relay.room().await;

    let relay = Relay::within(relay.stop().await, with_journal).await;
    let room = relay.room().await;
    assert_eq!(room.lesson, before.lesson);
    assert_eq!(view(&room, "Ada").original, None);
    // As the same client, it still has only one vote.
    let mut back = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    vote(&mut back, 1, 0).await;
    is_heard(&mut back).await;
    assert_eq!(relay.room().await.lesson.poll.unwrap().voters, 1);
}
