//! The lesson: scenes, polls, pictures that clients show, and deletion.

use std::time::Duration;

use crate::support::{
    Class, Client, Socket, find_card,
    private::{picture, revealing_gradient},
    state, view,
};
use unmask_core::{ClientId, InitialWeights};
use unmask_lesson::{Poll, Question, Scene, Suspect};
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

fn vote(client: &mut Client, poll: u32, answer: u16) {
    client.socket.send(&ClientMessage::Vote { poll, answer }, &[]);
}

/// Waits until the room has read everything this client sent.
fn is_heard(client: &mut Client) {
    client.socket.send(&ClientMessage::Ping, &[]);
    assert_eq!(client.answer(), RelayMessage::Pong);
}

fn voters(class: &Class, wanted: u32) -> RoomView {
    let has_voters = |room: &RoomView| room.lesson.poll.as_ref().is_some_and(|poll| poll.voters == wanted);
    class.room_when("the votes", has_voters)
}

#[test]
fn everybody_follows_the_scenes() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::Lesson { scene: Scene::April, beat: 2 });
    let lesson = ada.lesson_when("a scene", |lesson| lesson.scene == Scene::April);
    assert_eq!((lesson.beat, lesson.poll), (2, None));
    let room = class.room();
    assert_eq!((room.lesson.scene, room.lesson.beat), (Scene::April, 2));
    assert!(room.log.iter().any(|line| line.text == "The lesson is at scene 3, april."), "{:?}", room.log);
    // A latecomer gets the lesson's state with the welcome.
    let mut socket = Socket::open(&class);
    socket.hello("Bob", None);
    assert!(matches!(socket.message(), Some((RelayMessage::Welcome { .. }, _))));
    match socket.message() {
        Some((RelayMessage::Lesson(lesson), _)) => assert_eq!((lesson.scene, lesson.beat), (Scene::April, 2)),
        other => panic!("no lesson but {other:?}"),
    }
}

#[test]
fn votes_are_hidden_while_they_come_and_one_for_each_client() {
    let class = Class::start();
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    let cleo = class.client("Cleo");
    class.control(Control::Lesson { scene: Scene::Guess, beat: 0 });
    class.control(Control::AskPoll { poll: whose(&[ada.id.0, bob.id.0, cleo.id.0]) });
    let asked = ada.lesson_when("a question", |lesson| lesson.poll.is_some()).poll.unwrap();
    assert_eq!((asked.number, asked.is_open, asked.poll.correct, asked.counts), (1, true, None, vec![]));
    let names: Vec<&str> = asked.poll.suspects.iter().map(|suspect| suspect.nickname.as_str()).collect();
    assert_eq!(names, ["Ada", "Bob", "Cleo"]);
    vote(&mut ada, 1, 0);
    vote(&mut ada, 1, 1);
    is_heard(&mut ada);
    vote(&mut bob, 1, 2);
    let open = voters(&class, 2).lesson.poll.unwrap();
    assert!(open.is_open && open.votes.is_empty(), "{open:?}");
    // The vote of a client that leaves still counts.
    drop(bob);
    class.room_when("Bob gone", |room| state(room, "Bob") == Some(ClientState::Gone));
    class.control(Control::ClosePoll);
    let closed = class.room().lesson.poll.unwrap();
    assert_eq!((closed.is_open, closed.votes, closed.voters), (false, vec![1, 2], 2));
    let told = ada.lesson_when("the result", |lesson| lesson.poll.as_ref().is_some_and(|poll| !poll.is_open));
    let told = told.poll.unwrap();
    assert_eq!((told.poll.correct, told.counts), (None, vec![0, 1, 1]), "the wall has not told it");
    class.control(Control::Lesson { scene: Scene::Guess, beat: 2 });
    let told = ada.lesson_when("the answer", |lesson| lesson.beat == 2).poll.unwrap();
    assert_eq!(told.poll.correct, Some(1));
}

#[test]
fn votes_and_questions_that_make_no_sense_are_refused() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    vote(&mut ada, 0, 0);
    assert!(ada.refusal().contains("not asked"));
    let sentence = class.refusal_of(&Control::ClosePoll);
    assert!(sentence.contains("ask it first"), "{sentence}");
    class.control(Control::AskPoll { poll: is_safe() });
    for (poll, answer, reason) in [(1, 2, "from 0 to 1"), (2, 0, "question 2")] {
        vote(&mut ada, poll, answer);
        let refusal = ada.refusal();
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(class.room().lesson.poll.unwrap().voters, 0);
    class.control(Control::ClosePoll);
    vote(&mut ada, 1, 0);
    assert!(ada.refusal().contains("closed"));

    for (poll, reason) in [
        (whose(&[ada.id.0]), "choose from is 1; give 2 to 4"),
        (whose(&[ada.id.0, 77]), "client 77 is not in the room"),
    ] {
        let sentence = class.refusal_of(&Control::AskPoll { poll });
        assert!(sentence.contains(reason), "{sentence}");
    }
    class.control(Control::ClosePoll);
    assert_eq!(
        class.room().lesson.poll.unwrap().poll,
        is_safe(),
        "the question before stays, however often it is closed"
    );
}

/// Sends a picture of this grey, and returns its address once the room shows it.
fn show(class: &Class, client: &mut Client, grey: u8) -> String {
    let values = [f32::from(grey) / 255.0; ORIGINAL_VALUES];
    client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &values);
    assert_eq!(client.answer(), RelayMessage::Original { is_shown: true, waits: false });
    let nickname = client.nickname.clone();
    let room = class.room_when("an original", |room| view(room, &nickname).original.is_some());
    view(&room, &nickname).original.clone().unwrap().into()
}

/// Every way to withdraw an original works within a second.
#[test]
fn an_original_goes_when_its_owner_or_the_teacher_says_so() {
    let class = Class::start();
    for way in ["hide", "consent", "reset", "forget", "remove", "ban", "leave"] {
        let mut ada = class.client("Ada");
        let path = show(&class, &mut ada, 100);
        let id = ada.id;
        let asked = class.passed();
        let mut ada = Some(ada);
        match (way, &mut ada) {
            ("hide", Some(ada)) => ada.socket.send(&ClientMessage::HideOriginal, &[]),
            ("consent", Some(ada)) => {
                ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[])
            }
            ("forget", Some(ada)) => ada.socket.send(&ClientMessage::Forget, &[]),
            ("reset", _) => class.control(Control::Reset),
            ("remove", _) => class.control(Control::Remove { client: id }),
            ("ban", _) => class.control(Control::Ban { client: id }),
            _ => ada = None,
        }
        let is_gone = |room: &RoomView| room.clients.iter().all(|client| client.original.is_none());
        class.room_when(way, is_gone);
        assert!(class.passed() - asked < AT_ONCE, "{way} took {:?}", class.passed() - asked);
        assert_eq!(class.picture(&path), None, "{way}");
        if matches!(way, "hide" | "consent" | "reset") {
            assert_eq!(
                ada.as_mut().unwrap().answer(),
                RelayMessage::Original { is_shown: false, waits: false },
                "{way}"
            );
        }
        drop(ada);
        class.room_when("nobody", |room| state(room, "Ada").is_none_or(|state| state == ClientState::Gone));
    }
}

#[test]
fn originals_without_consent_or_of_another_size_are_refused() {
    let class = Class::start();
    let mut eve = Client::join_unseen(&class, "Eve");
    let values = [0.5; ORIGINAL_VALUES];
    for (consent, side, length, reason) in
        [(false, 32, 3072, "without the consent"), (true, 64, 3072, "send 32 x 32"), (true, 32, 3071, "send 3072")]
    {
        eve.socket.send(&ClientMessage::Consent { may_show: consent, may_lend: false }, &[]);
        eve.socket.send(&ClientMessage::Original { side }, &values[..length]);
        let refusal = eve.refusal();
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(view(&class.room(), "Eve").original, None);
}

/// Removes pictures, cards, vote, roster entry, and all log lines that name the student.
#[test]
fn a_student_is_forgotten() {
    let class = Class::start();
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::Target { client: ada.id });
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing_gradient(&picture(1), 3));
    assert_eq!(ada.answer(), RelayMessage::Accepted { round: 1 });
    let is_shown = |room: &RoomView| find_card(room, "embedding").is_some_and(|card| card.picture.is_some());
    let room = class.room_when("a reconstruction", is_shown);
    let reconstruction = find_card(&room, "embedding").and_then(|card| card.picture.clone()).unwrap();
    let original = show(&class, &mut ada, 7);
    class.control(Control::AskPoll { poll: whose(&[ada.id.0, bob.id.0]) });
    for client in [&mut ada, &mut bob] {
        vote(client, 1, 1);
    }
    voters(&class, 2);

    let asked = class.passed();
    ada.socket.send(&ClientMessage::Forget, &[]);
    let room = class.room_when("Ada forgotten", |room| state(room, "Ada").is_none());
    assert!(class.passed() - asked < AT_ONCE, "{:?}", class.passed() - asked);
    assert!(ada.socket.goodbye().contains("deleted"));
    let is_unnamed = |lesson: &LessonState| {
        lesson.poll.as_ref().is_some_and(|asked| asked.poll.suspects.iter().all(|suspect| suspect.nickname != "Ada"))
    };
    bob.lesson_when("the question without Ada's name", is_unnamed);
    let json = serde_json::to_string(&room.clients).unwrap()
        + &serde_json::to_string(&room.log).unwrap()
        + &serde_json::to_string(&room.lesson).unwrap()
        + &serde_json::to_string(&room.attacks).unwrap();
    assert!(!json.contains("Ada"), "{json}");
    assert!(room.log.iter().any(|line| line.text == "Bob joined."), "{:?}", room.log);
    assert!(room.attacks.is_empty() && room.label.is_none());
    assert_eq!(room.lesson.poll.unwrap().voters, 1);
    for path in [reconstruction.to_string(), original] {
        assert_eq!(class.picture(&path), None, "{path}");
    }
    // The ticket no longer restores the client.
    let back = Client::join(&class, "Zoe", Some(ada.ticket));
    assert!(back.id != ada.id && back.nickname == "Zoe");
}

#[test]
fn another_model_begins_at_once() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing_gradient(&picture(1), 3));
    let room = class.room_when("a round", |room| room.losses.len() == 1 && !room.attacks.is_empty());
    assert_eq!(room.trade_off.len(), 1);
    let choose = |name: &str, april_block| Control::Architecture {
        name: name.to_owned(),
        april_block,
        initial_weights: InitialWeights::Scratch,
    };
    // This model's updates are longer than those of the initial one.
    class.control(choose("vit_nano_patch8_32", true));
    let room = class.room();
    assert_eq!((room.architecture.name().as_ref(), room.architecture.april_block()), ("vit_nano_patch8_32", true));
    assert_eq!((room.round, room.phase, room.losses.len(), room.trade_off.len()), (0, Phase::Paused, 0, 0));
    assert!(room.attacks.is_empty() && room.parameters > plan.weights.len());
    class.control(Control::OneRound);
    let plan = ada.plan();
    assert_eq!((plan.round, plan.model.name.as_str(), plan.weights.len()), (1, "vit_nano_patch8_32", room.parameters));
    let update = unmask_defence::ProtectedUpdate::dense(vec![0.001; plan.weights.len()]);
    ada.send_update(&plan, 1.0, update);
    assert_eq!(ada.answer(), RelayMessage::Accepted { round: 1 });

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
        let sentence = class.refusal_of(&control);
        assert!(sentence.contains(reason), "{sentence}");
    }
    assert_eq!(class.room().architecture, room.architecture);
    class.control(Control::Defence { defence: "fixed-position".parse().unwrap() });
    let sentence = class.refusal_of(&choose("resnet_nano", false));
    assert!(sentence.contains("protects embeddings"), "{sentence}");
}

/// The newest rounds' scores of one client under one defence determine the verdict on the defence.
#[test]
fn scores_make_the_verdict_and_the_trade_off() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    for (round, ssim) in [(1_u8, 0.9), (2, 0.5), (3, 0.7)] {
        class.control(Control::OneRound);
        let plan = ada.plan();
        ada.update(&plan, revealing_gradient(&picture(1), 3));
        let (attacked, _) = ada.reconstruction("embedding");
        assert_eq!(attacked, u32::from(round));
        let attack = "embedding".parse().unwrap();
        ada.socket.send(&ClientMessage::Score { round: attacked, attack, psnr: 20.0, ssim }, &[]);
        class.room_when("the score", |room| {
            room.phase == Phase::Paused
                && find_card(room, "embedding").is_some_and(|card| card.recent.len() == usize::from(round))
        });
    }
    let room = class.room();
    assert_eq!(find_card(&room, "embedding").unwrap().recent, [0.9, 0.5, 0.7]);
    let point = &room.trade_off[0];
    assert_eq!((room.trade_off.len(), point.rounds, point.ssim), (1, 3, Some(0.7)));
    class.control(Control::Reset);
    assert!(class.room().trade_off.is_empty());
}

#[test]
fn who_is_forgotten_takes_nobody_elses_pictures_along() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    let mut bob = class.client("Bob");
    class.control(Control::OneRound);
    let (plan, _) = (ada.plan(), bob.plan());
    ada.update(&plan, revealing_gradient(&picture(1), 3));
    let room = class.room_when("a picture", |room| room.attacks.iter().any(|card| card.picture.is_some()));
    let path = room.attacks.iter().find_map(|card| card.picture.clone()).expect("a picture");
    bob.socket.send(&ClientMessage::Forget, &[]);
    class.room_when("Bob gone", |room| state(room, "Bob").is_none());
    assert!(class.picture(&path).is_some());
}
