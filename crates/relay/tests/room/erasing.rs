//! What lessons leave in the data folder, and how it goes.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::Path,
    time::{Duration, SystemTime},
};

use tokio_tungstenite::connect_async;
use unmask_relay::{JournalConfig, RelayConfig, serve};
use unmask_wire::{ClientMessage, FORGOTTEN, FORGOTTEN_BUT, RelayMessage, view::Control};

use crate::support::{Relay, Socket, config, http, upgrade_to};

const NICKNAME: &str = "Zquixotine";

fn another_lesson(config: &mut RelayConfig) {
    config.room.journal = Some(JournalConfig { begins_anew: true, ..JournalConfig::default() });
}

fn the_last_lesson(config: &mut RelayConfig) {
    config.room.journal = Some(JournalConfig::default());
}

fn names(folder: &Path) -> BTreeSet<String> {
    folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The files that hold a nickname.
fn holders(folder: &Path) -> Vec<String> {
    let holds = |name: &String| {
        let bytes = fs::read(folder.join(name)).unwrap_or_default();
        bytes.windows(NICKNAME.len()).any(|part| part == NICKNAME.as_bytes())
    };
    names(folder).into_iter().filter(holds).collect()
}

/// A folder with a lesson and the one before it.
async fn two_lessons() -> tempfile::TempDir {
    let mut folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let relay = Relay::within(folder, another_lesson).await;
        let _student = relay.client(NICKNAME).await;
        relay.room_when("a lesson", |room| room.clients.len() == 1).await;
        folder = relay.stop().await;
        // A lesson is known by the second in which it began.
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    folder
}

async fn erase(relay: &Relay, body: &str) -> (u16, String) {
    let token = format!("Bearer {}", relay.running.token());
    let (status, _, answer) = http(&relay.running, "POST", "/api/erase", &[("authorization", &token)], body).await;
    (status, answer)
}

#[tokio::test]
async fn the_teacher_erases_everything_and_gets_a_receipt() {
    let folder = two_lessons().await;
    let path = folder.path().to_owned();
    let relay = Relay::within(folder, the_last_lesson).await;
    let mut student = relay.client(NICKNAME).await;
    relay.room_when("the student", |room| room.clients.iter().any(|client| client.nickname.contains(NICKNAME))).await;
    assert!(holders(&path).len() >= 3, "{:?}", holders(&path));
    assert_eq!(erase(&relay, "").await.0, 400);
    assert_eq!(erase(&relay, r#"{"everything":false}"#).await.0, 400);

    let before = names(&path);
    let (status, answer) = erase(&relay, r#"{"everything":true}"#).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(student.socket.goodbye().await, FORGOTTEN);
    let left = names(&path);
    let receipt: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let files = receipt["files"].as_array().unwrap();
    let erased: BTreeSet<String> = files.iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect();
    for name in
        ["journal-a.redb", "journal-b.redb", "journal-b.redb.old", "lesson.unmask", "lesson.unmask.old", "room.key"]
    {
        assert!(erased.contains(name), "{name} is not in {answer}");
    }
    assert!(files.iter().all(|file| file["bytes"].as_u64().unwrap() > 0) && receipt["unix"].as_u64().is_some());
    assert!(erased.is_disjoint(&left) && erased.is_subset(&before));
    assert_eq!(holders(&path), [""; 0]);
    assert!(!answer.contains(NICKNAME));
    assert_eq!(fs::read_to_string(path.join("erased.jsonl")).unwrap(), format!("{answer}\n"));

    // The room is empty, open, and keeps nothing.
    let room = relay.room().await;
    assert_eq!((room.clients.len(), room.round, room.journal), (0, 0, None));
    relay.log_line("The teacher erased the lesson.").await;
    let _another = relay.client(NICKNAME).await;
    let token = relay.running.token().to_owned();
    let folder = relay.stop().await;
    assert_eq!(names(&path), left);
    let relay = Relay::within(folder, the_last_lesson).await;
    assert!(relay.running.resumed().is_none() && relay.running.token() != token);
}

/// The door's settings name nobody. Bans name browsers.
#[tokio::test]
async fn the_door_stays_as_it_was_when_everything_is_erased() {
    let relay = Relay::with(the_last_lesson).await;
    let (old, eve) = (relay.running.room_key(), relay.client("Eve").await);
    for control in [
        Control::Ban { client: eve.id },
        Control::ApproveFirst { on: true },
        Control::NewKey,
        Control::Lock { on: true },
    ] {
        relay.control(control).await;
    }
    assert_eq!(erase(&relay, r#"{"everything":true}"#).await.0, 200);
    relay.log_line("The teacher erased the lesson.").await;
    let room = relay.room().await;
    assert_eq!((room.is_locked, room.approves, room.banned), (true, true, 0));
    relay.control(Control::Lock { on: false }).await;
    let join = async |key: &str| {
        let request = upgrade_to(&format!("ws://{}/ws", relay.running.http()), key);
        let mut socket = Socket::on(connect_async(request).await.unwrap().0);
        socket.hello("Ada", None).await;
        socket
    };
    assert!(join(&old).await.goodbye().await.contains("new key"));
    assert_eq!(join(&relay.running.room_key()).await.message().await.unwrap().0, RelayMessage::Waiting);

    // Nor does the flag of the start come back.
    let relay = Relay::with(|config| {
        the_last_lesson(config);
        config.room.approve_first = true;
    })
    .await;
    relay.control(Control::ApproveFirst { on: false }).await;
    assert_eq!(erase(&relay, r#"{"everything":true}"#).await.0, 200);
    relay.log_line("The teacher erased the lesson.").await;
    assert!(!relay.room().await.approves);
}

/// Nobody is told that everything went if it did not, and the next start tries again.
#[tokio::test]
async fn what_cannot_be_erased_is_said_and_goes_at_the_next_start() {
    let folder = two_lessons().await;
    let path = folder.path().to_owned();
    // A folder cannot be deleted as a file.
    let obstacle = path.join("lesson.unmask.old");
    fs::remove_file(&obstacle).unwrap();
    fs::create_dir(&obstacle).unwrap();
    let relay = Relay::within(folder, the_last_lesson).await;
    let mut student = relay.client(NICKNAME).await;
    let (status, answer) = erase(&relay, r#"{"everything":true}"#).await;
    assert!(status == 500 && answer.contains(&obstacle.display().to_string()), "{status} {answer}");
    assert_eq!(student.socket.goodbye().await, FORGOTTEN_BUT);
    relay.log_line("Something of it is still there").await;
    let folder = relay.stop().await;
    let mut again = config(path.clone());
    the_last_lesson(&mut again);
    let error = format!("{:#}", serve(again).await.unwrap_err());
    assert!(error.contains("lesson.unmask.old") && error.contains("cannot be deleted"), "{error}");
    fs::remove_dir(&obstacle).unwrap();
    let relay = Relay::within(folder, the_last_lesson).await;
    assert!(relay.running.resumed().is_none());
    assert_eq!(holders(&path), [""; 0]);
}

#[tokio::test]
async fn a_lesson_left_behind_goes_at_the_start() {
    let folder = two_lessons().await;
    let path = folder.path().to_owned();
    let relay = Relay::within(folder, |config| {
        the_last_lesson(config);
        config.keep_days = Some(30);
    })
    .await;
    assert!(relay.running.resumed().is_some(), "it is new");
    let folder = relay.stop().await;
    let long_ago = SystemTime::now() - Duration::from_secs(31 * 24 * 60 * 60);
    for name in names(&path) {
        File::options().write(true).open(path.join(name)).unwrap().set_modified(long_ago).unwrap();
    }
    let relay = Relay::within(folder, |config| {
        the_last_lesson(config);
        config.keep_days = Some(30);
    })
    .await;
    assert!(relay.running.resumed().is_none());
    assert_eq!(holders(&path), [""; 0]);
    let receipt = fs::read_to_string(path.join("erased.jsonl")).unwrap();
    assert!(receipt.contains("journal-b.redb.old") && !receipt.contains(NICKNAME), "{receipt}");
}

/// A relay that saves nothing may stand in a folder where earlier lessons left something.
#[tokio::test]
async fn a_deletion_without_a_journal_reaches_earlier_lessons() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let aside = ["journal-a.redb.old", "journal-b.redb.broken-7", "lesson.unmask.old"];
    aside.iter().for_each(|name| fs::write(path.join(name), NICKNAME).unwrap());
    let relay = Relay::within(folder, |_| {}).await;
    let mut student = relay.client(NICKNAME).await;
    student.socket.send(&ClientMessage::Forget, &[]).await;
    assert_eq!(student.socket.goodbye().await, FORGOTTEN);
    assert_eq!(holders(&path), [""; 0]);

    fs::create_dir(path.join(aside[2])).unwrap();
    let mut student = relay.client(NICKNAME).await;
    student.socket.send(&ClientMessage::Forget, &[]).await;
    assert_eq!(student.socket.goodbye().await, FORGOTTEN_BUT);
}

/// A relay may be killed while it deletes what earlier lessons left.
#[tokio::test]
async fn an_interrupted_deletion_is_finished_at_the_next_start() {
    for change in [the_last_lesson, |_: &mut RelayConfig| {}] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        fs::write(path.join("erasure-of-old.unfinished"), "").unwrap();
        fs::write(path.join("lesson.unmask.old"), NICKNAME).unwrap();
        let _relay = Relay::within(folder, change).await;
        assert!(!path.join("erasure-of-old.unfinished").exists());
        assert_eq!(holders(&path), [""; 0]);
    }
}
