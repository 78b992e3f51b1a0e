//! The lesson: scenes, polls, pictures that clients show, and deletion.

use std::time::{Duration, Instant};

use crate::support::{
    Client, Relay, find_card, http_bytes,
    private::{picture, revealing_gradient},
    state, view,
};
use unmask_core::{ClientId, InitialWeights};
use unmask_lesson::{Poll, Question, Scene, Suspect};
use unmask_relay::{JournalConfig, RelayConfig, Running};
use unmask_wire::{
    ClientMessage, LessonState, ORIGINAL_SIDE, ORIGINAL_VALUES, RelayMessage,
    view::{ClientState, Control, Phase, RoomView},
};

/// Longest time that withdrawn data may remain visible.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Asks whose picture it is. The second suspect is the right one.
fn whose(suspects: &[u32]) -> Poll {
    let suspect = |id: &u32| Suspect { client: ClientId(*id), nickname: String::new() };
    Poll { question: Question::Whose, suspects: suspects.iter().map(suspect).collect(), correct: Some(1) }
}

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

#[tokio::test]
async fn everybody_follows_the_scenes() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Lesson { scene: Scene::April, beat: 2 }).await;
    let lesson = ada.lesson_when("a scene", |lesson| lesson.scene == Scene::April).await;
    assert_eq!((lesson.beat, lesson.poll), (2, None));
    let room = relay.room().await;
    assert_eq!((room.lesson.scene, room.lesson.beat), (Scene::April, 2));
    assert!(room.log.iter().any(|line| line.text == "The lesson is at scene 3, april."), "{:?}", room.log);
    // A latecomer gets the lesson's state with the welcome.
    let mut socket = crate::support::Socket::open(&relay.running).await;
    socket.hello("Bob", None).await;
    assert!(matches!(socket.message().await, Some((RelayMessage::Welcome { .. }, _))));
    match socket.message().await {
        Some((RelayMessage::Lesson(lesson), _)) => assert_eq!((lesson.scene, lesson.beat), (Scene::April, 2)),
        other => panic!("no lesson but {other:?}"),
    }
}

#[tokio::test]
async fn votes_are_hidden_while_they_come_and_one_for_each_client() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    let cleo = relay.client("Cleo").await;
    relay.control(Control::Lesson { scene: Scene::Guess, beat: 0 }).await;
    relay.control(Control::AskPoll { poll: whose(&[ada.id.0, bob.id.0, cleo.id.0]) }).await;
    let asked = ada.lesson_when("a question", |lesson| lesson.poll.is_some()).await.poll.unwrap();
    assert_eq!((asked.number, asked.is_open, asked.poll.correct, asked.counts), (1, true, None, vec![]));
    let names: Vec<&str> = asked.poll.suspects.iter().map(|suspect| suspect.nickname.as_str()).collect();
    assert_eq!(names, ["Ada", "Bob", "Cleo"]);
    vote(&mut ada, 1, 0).await;
    vote(&mut ada, 1, 1).await;
    is_heard(&mut ada).await;
    vote(&mut bob, 1, 2).await;
    let open = voters(&relay, 2).await.lesson.poll.unwrap();
    assert!(open.is_open && open.votes.is_empty(), "{open:?}");
    // The vote of a client that leaves still counts.
    drop(bob);
    relay.room_when("Bob gone", |room| state(room, "Bob") == Some(ClientState::Gone)).await;
    relay.control(Control::ClosePoll).await;
    let closed = relay.room().await.lesson.poll.unwrap();
    assert_eq!((closed.is_open, closed.votes, closed.voters), (false, vec![1, 2], 2));
    let told = ada.lesson_when("the result", |lesson| lesson.poll.as_ref().is_some_and(|poll| !poll.is_open)).await;
    let told = told.poll.unwrap();
    assert_eq!((told.poll.correct, told.counts), (None, vec![0, 1, 1]), "the wall has not told it");
    relay.control(Control::Lesson { scene: Scene::Guess, beat: 2 }).await;
    let told = ada.lesson_when("the answer", |lesson| lesson.beat == 2).await.poll.unwrap();
    assert_eq!(told.poll.correct, Some(1));
}

#[tokio::test]
async fn votes_and_questions_that_make_no_sense_are_refused() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    vote(&mut ada, 0, 0).await;
    assert!(ada.refusal().await.contains("not asked"));
    let (status, sentence) = relay.try_control(&Control::ClosePoll).await;
    assert!(status == 400 && sentence.contains("ask it first"), "{sentence}");
    relay.control(Control::AskPoll { poll: is_safe() }).await;
    for (poll, answer, reason) in [(1, 2, "from 0 to 1"), (2, 0, "question 2")] {
        vote(&mut ada, poll, answer).await;
        let refusal = ada.refusal().await;
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(relay.room().await.lesson.poll.unwrap().voters, 0);
    relay.control(Control::ClosePoll).await;
    vote(&mut ada, 1, 0).await;
    assert!(ada.refusal().await.contains("closed"));

    for (poll, reason) in [
        (whose(&[ada.id.0]), "choose from is 1; give 2 to 4"),
        (whose(&[ada.id.0, 77]), "client 77 is not in the room"),
    ] {
        let (status, sentence) = relay.try_control(&Control::AskPoll { poll }).await;
        assert!(status == 400 && sentence.contains(reason), "{sentence}");
    }
    relay.control(Control::ClosePoll).await;
    assert_eq!(
        relay.room().await.lesson.poll.unwrap().poll,
        is_safe(),
        "the question before stays, however often it is closed"
    );
}

/// Sends a picture of this grey, and returns its address once the room shows it.
async fn show(relay: &Relay, client: &mut Client, grey: u8) -> String {
    let values = [f32::from(grey) / 255.0; ORIGINAL_VALUES];
    client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &values).await;
    assert_eq!(client.answer().await, RelayMessage::Original { is_shown: true });
    let nickname = client.nickname.clone();
    let room = relay.room_when("an original", |room| view(room, &nickname).original.is_some()).await;
    view(&room, &nickname).original.clone().unwrap()
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
    for (secret, wanted) in [(running.room_key(), 403), (running.projector_secret(), 200), (running.token(), 200)] {
        assert_eq!(get(running, &path, secret).await.0, wanted, "{secret}");
    }
    let (_, png) = get(running, &path, running.projector_secret()).await;
    let picture = unmask_data::decode(&png).unwrap();
    assert_eq!((picture.width(), picture.height(), picture.rgb()), (32, 32, [200; ORIGINAL_VALUES].as_slice()));
}

/// Every way to withdraw an original works within a second.
#[tokio::test]
async fn an_original_goes_when_its_owner_or_the_teacher_says_so() {
    let relay = Relay::start().await;
    for way in ["hide", "consent", "reset", "forget", "remove", "ban", "leave"] {
        let mut ada = relay.client("Ada").await;
        let path = show(&relay, &mut ada, 100).await;
        let id = ada.id;
        let asked = Instant::now();
        let mut ada = Some(ada);
        match (way, &mut ada) {
            ("hide", Some(ada)) => ada.socket.send(&ClientMessage::HideOriginal, &[]).await,
            ("consent", Some(ada)) => {
                ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]).await
            }
            ("forget", Some(ada)) => ada.socket.send(&ClientMessage::Forget, &[]).await,
            ("reset", _) => relay.control(Control::Reset).await,
            ("remove", _) => relay.control(Control::Remove { client: id }).await,
            ("ban", _) => relay.control(Control::Ban { client: id }).await,
            _ => ada = None,
        }
        let is_gone = |room: &RoomView| room.clients.iter().all(|client| client.original.is_none());
        relay.room_when(way, is_gone).await;
        assert!(asked.elapsed() < AT_ONCE, "{way} took {:?}", asked.elapsed());
        assert_eq!(relay.get(&path).await.0, 404, "{way}");
        if matches!(way, "hide" | "consent" | "reset") {
            assert_eq!(ada.as_mut().unwrap().answer().await, RelayMessage::Original { is_shown: false }, "{way}");
        }
        drop(ada);
        relay.room_when("nobody", |room| state(room, "Ada").is_none_or(|state| state == ClientState::Gone)).await;
    }
}

#[tokio::test]
async fn originals_without_consent_or_of_another_size_are_refused() {
    let relay = Relay::start().await;
    let mut eve = Client::join_unseen(&relay.running, "Eve").await;
    let values = [0.5; ORIGINAL_VALUES];
    for (consent, side, length, reason) in
        [(false, 32, 3072, "without the consent"), (true, 64, 3072, "send 32 x 32"), (true, 32, 3071, "send 3072")]
    {
        eve.socket.send(&ClientMessage::Consent { may_show: consent, may_lend: false }, &[]).await;
        eve.socket.send(&ClientMessage::Original { side }, &values[..length]).await;
        let refusal = eve.refusal().await;
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(view(&relay.room().await, "Eve").original, None);
}

/// Removes pictures, cards, vote, roster entry, and all log lines that name the student.
#[tokio::test]
async fn a_student_is_forgotten() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::Target { client: ada.id }).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing_gradient(&picture(1), 3), [1; 32]).await;
    assert_eq!(ada.answer().await, RelayMessage::Accepted { round: 1 });
    let is_shown = |room: &RoomView| find_card(room, "embedding").is_some_and(|card| card.picture.is_some());
    let room = relay.room_when("a reconstruction", is_shown).await;
    let reconstruction = find_card(&room, "embedding").and_then(|card| card.picture.clone()).unwrap();
    let original = show(&relay, &mut ada, 7).await;
    relay.control(Control::AskPoll { poll: whose(&[ada.id.0, bob.id.0]) }).await;
    for client in [&mut ada, &mut bob] {
        vote(client, 1, 1).await;
    }
    voters(&relay, 2).await;

    let asked = Instant::now();
    ada.socket.send(&ClientMessage::Forget, &[]).await;
    let room = relay.room_when("Ada forgotten", |room| state(room, "Ada").is_none()).await;
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    assert!(ada.socket.goodbye().await.contains("deleted"));
    let is_unnamed = |lesson: &LessonState| {
        lesson.poll.as_ref().is_some_and(|asked| asked.poll.suspects.iter().all(|suspect| suspect.nickname != "Ada"))
    };
    bob.lesson_when("the question without Ada's name", is_unnamed).await;
    let json = serde_json::to_string(&room.clients).unwrap()
        + &serde_json::to_string(&room.log).unwrap()
        + &serde_json::to_string(&room.lesson).unwrap()
        + &serde_json::to_string(&room.attacks).unwrap();
    assert!(!json.contains("Ada"), "{json}");
    assert!(room.log.iter().any(|line| line.text == "Bob joined."), "{:?}", room.log);
    assert!(room.attacks.is_empty() && room.label.is_none());
    assert_eq!(room.lesson.poll.unwrap().voters, 1);
    for path in [reconstruction, original] {
        assert_eq!(relay.get(&path).await.0, 404, "{path}");
    }
    // The ticket no longer restores the client.
    let back = Client::join(&relay.running, "Zoe", Some(ada.ticket)).await;
    assert!(back.id != ada.id && back.nickname == "Zoe");
}

#[tokio::test]
async fn another_model_begins_at_once() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing_gradient(&picture(1), 3), [1; 32]).await;
    let room = relay.room_when("a round", |room| room.losses.len() == 1 && !room.attacks.is_empty()).await;
    assert_eq!(room.trade_off.len(), 1);
    let choose = |name: &str, april_block| Control::Architecture {
        name: name.to_owned(),
        april_block,
        initial_weights: InitialWeights::Scratch,
    };
    // This model's updates are longer than those of the initial one.
    relay.control(choose("vit_nano_patch8_32", true)).await;
    let room = relay.room().await;
    assert_eq!((room.architecture.name().as_ref(), room.architecture.april_block()), ("vit_nano_patch8_32", true));
    assert_eq!((room.round, room.phase, room.losses.len(), room.trade_off.len()), (0, Phase::Paused, 0, 0));
    assert!(room.attacks.is_empty() && room.parameters > plan.weights.len());
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    assert_eq!((plan.round, plan.model.name.as_str(), plan.weights.len()), (1, "vit_nano_patch8_32", room.parameters));
    let update = unmask_defence::ProtectedUpdate::dense(vec![0.001; plan.weights.len()]);
    ada.send_update(&plan, 1.0, update).await;
    assert_eq!(ada.answer().await, RelayMessage::Accepted { round: 1 });

    for (control, reason) in [
        (choose("vgg16", false), "There is no model \"vgg16\" to choose; choose vit_pico_patch4_16"),
        (choose("resnet_nano", true), "no transformer block"),
        (
            Control::Architecture {
                name: "vit_pico_patch4_16".into(),
                april_block: false,
                initial_weights: InitialWeights::Pretrained,
            },
            "begin from scratch",
        ),
    ] {
        let (status, sentence) = relay.try_control(&control).await;
        assert!(status == 400 && sentence.contains(reason), "{sentence}");
    }
    assert_eq!(relay.room().await.architecture, room.architecture);
    relay.control(Control::Defence { defence: "fixed-position".parse().unwrap() }).await;
    let (status, sentence) = relay.try_control(&choose("resnet_nano", false)).await;
    assert!(status == 400 && sentence.contains("protects embeddings"), "{sentence}");
}

/// The newest rounds' scores of one client under one defence determine the verdict on the defence.
#[tokio::test]
async fn scores_make_the_verdict_and_the_trade_off() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    for (round, ssim) in [(1_u8, 0.9), (2, 0.5), (3, 0.7)] {
        relay.control(Control::OneRound).await;
        let plan = ada.plan().await;
        ada.update(&plan, revealing_gradient(&picture(1), 3), [round; 32]).await;
        let (attacked, _) = ada.reconstruction("embedding").await;
        assert_eq!(attacked, u32::from(round));
        let attack = "embedding".parse().unwrap();
        ada.socket.send(&ClientMessage::Score { round: attacked, attack, psnr: 20.0, ssim }, &[]).await;
        relay
            .room_when("the score", |room| {
                room.phase == Phase::Paused
                    && find_card(room, "embedding").is_some_and(|card| card.recent.len() == usize::from(round))
            })
            .await;
    }
    let room = relay.room().await;
    assert_eq!(find_card(&room, "embedding").unwrap().recent, [0.9, 0.5, 0.7]);
    let point = &room.trade_off[0];
    assert_eq!((room.trade_off.len(), point.rounds, point.ssim), (1, 3, Some(0.7)));
    relay.control(Control::Reset).await;
    assert!(relay.room().await.trade_off.is_empty());
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
