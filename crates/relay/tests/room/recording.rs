//! The recording of a lesson: what it contains, omits and removes.

use std::{
    fs,
    io::{Cursor, Read as _},
    time::{Duration, Instant},
};

use crate::support::{
    Client, Relay, find_card, http, http_bytes,
    private::{picture, revealing_gradient},
    state,
};
use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use unmask_core::AttackMethod;
use unmask_lesson::{Poll, Question};
use unmask_recording::{NAME, Player, Read, Recording};
use unmask_relay::{JournalConfig, RelayConfig, Replaying, export_replay, replay};
use unmask_wire::{
    ClientMessage, FORGOTTEN,
    view::{ClientState, Control, RoomView},
};
use zip::ZipArchive;

const PATIENCE: Duration = Duration::from_secs(20);

fn with_journal(config: &mut RelayConfig) {
    config.room.journal = Some(JournalConfig::default());
}

async fn taken(relay: &Relay) -> Recording {
    let token = format!("Bearer {}", relay.running.token());
    let headers = [("authorization", token.as_str())];
    let (status, head, body) = http_bytes(&relay.running, "GET", "/api/lesson.unmask", &headers, "").await;
    assert!(status == 200 && head.contains("application/gzip") && head.contains(NAME), "{status} {head}");
    assert!(!head.contains("content-encoding"), "packed twice: {head}");
    let Read { recording, torn } = Recording::read(&body).unwrap();
    assert_eq!(torn, None);
    recording
}

async fn taken_when(relay: &Relay, what: &str, is_wanted: impl Fn(&RoomView) -> bool) -> Recording {
    let wait = async {
        loop {
            let recording = taken(relay).await;
            if last(recording.clone()).is_some_and(|room| is_wanted(&room)) {
                return recording;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("not recorded: {what}"))
}

fn last(recording: Recording) -> Option<RoomView> {
    let mut player = Player::new(recording);
    player.seek(u64::MAX);
    player.recorded().ok()
}

fn states(recording: Recording) -> Vec<RoomView> {
    let mut player = Player::new(recording);
    let mut rooms = Vec::new();
    while player.step() {
        rooms.push(player.recorded().unwrap());
    }
    rooms
}

/// Runs a round in which this client, the target, reveals its picture. Returns the PNG in a recording's text encoding.
async fn attacked(relay: &Relay, client: &mut Client, seed: u8) -> String {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    client.update(&plan, revealing_gradient(&picture(seed.into()), 3)).await;
    let is_shown = |room: &RoomView| {
        find_card(room, "embedding").is_some_and(|card| card.client == client.id && card.picture.is_some())
    };
    let room = relay.room_when("a reconstruction", is_shown).await;
    let path = find_card(&room, "embedding").and_then(|card| card.picture.clone()).unwrap();
    let (status, _, png) = relay.get(&path).await;
    assert_eq!(status, 200);
    let recording = taken_when(relay, "the reconstruction", |room| {
        find_card(room, "embedding").is_some_and(|card| card.picture.as_ref() == Some(&path))
    })
    .await;
    let mut player = Player::new(recording.clone());
    player.seek(u64::MAX);
    assert_eq!(player.picture(&path), Some(png.as_slice()));
    let shown = player.room().unwrap();
    let address = find_card(&shown, "embedding").and_then(|card| card.picture.clone()).unwrap();
    let letters = address.strip_prefix("data:image/png;base64,").unwrap().to_owned();
    assert!(recording.text_from(0).unwrap().contains(&letters));
    letters
}

#[tokio::test]
async fn a_lesson_is_recorded_and_nothing_that_opens_the_room() {
    let relay = Relay::with(with_journal).await;
    let mut ada = relay.client("Ada").await;
    let _eve = Client::join_unseen(&relay.running, "Eve").await;
    attacked(&relay, &mut ada, 1).await;
    let recording = taken(&relay).await;
    let rooms = states(recording.clone());
    let room = rooms.last().unwrap();
    assert_eq!((room.clients.len(), room.round, rooms[0].round), (2, 1, 0));
    assert!(room.log.iter().any(|line| line.text == "Ada joined."));
    let text = recording.text_from(0).unwrap();
    let running = &relay.running;
    let own_port = format!("localhost:{}", running.http().port());
    let ticket: String = ada.ticket.iter().map(|byte| format!("{byte:02x}")).collect();
    let pin = format!("\"{}\"", running.pin());
    for secret in [running.token(), &running.room_key(), running.projector_secret(), &pin, &own_port, &ticket, "<svg"] {
        assert!(!text.contains(secret), "{secret}");
    }
    // The file next to the journal has the same text, and only this user may read it.
    let folder = relay.stop().await;
    let path = folder.path().join(NAME);
    let kept = fs::read_to_string(&path).unwrap();
    assert!(kept.starts_with(&text), "the file is not what was downloaded");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
}

/// After consent is withdrawn, no byte of a picture remains in downloads or on the disk. Other clients' pictures stay.
#[tokio::test]
async fn what_is_withdrawn_goes_from_the_recording() {
    // Each takes as long as the keeper gathers withdrawals, so they wait together.
    join_all(["consent", "remove", "ban", "forget", "reset"].map(withdrawn)).await;
}

async fn withdrawn(way: &str) {
    let relay = Relay::with(with_journal).await;
    let mut bob = relay.client("Bob").await;
    relay.control(Control::Target { client: bob.id }).await;
    let others = attacked(&relay, &mut bob, 2).await;
    drop(bob);
    relay.room_when("Bob gone", |room| state(room, "Bob") == Some(ClientState::Gone)).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Target { client: ada.id }).await;
    let letters = attacked(&relay, &mut ada, 1).await;
    match way {
        "consent" => ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]).await,
        "forget" => ada.socket.send(&ClientMessage::Forget, &[]).await,
        "remove" => relay.control(Control::Remove { client: ada.id }).await,
        "ban" => relay.control(Control::Ban { client: ada.id }).await,
        _ => relay.control(Control::Reset).await,
    }
    let wait = async {
        while taken(&relay).await.text_from(0).unwrap().contains(&letters) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{way}: the picture is still there"));
    let recording = taken(&relay).await;
    let text = recording.text_from(0).unwrap();
    // A client that merely left has not withdrawn its consent.
    assert_eq!(text.contains(&others), way != "reset", "{way}");
    let rooms = states(recording);
    assert!(way == "reset" || rooms.iter().all(|room| room.attacks.iter().all(|card| card.client != ada.id)), "{way}");
    if way == "forget" {
        let known = |room: &RoomView| room.clients.iter().any(|client| client.id == ada.id);
        assert!(!rooms.iter().any(known), "{way}");
    }
    let folder = relay.stop().await;
    let kept = fs::read_to_string(folder.path().join(NAME)).unwrap();
    assert!(!kept.contains(&letters), "{way}: it is on the disk");
}

/// Nobody asks for the recording, and the second of two withdrawals waits for the next search.
#[tokio::test]
async fn withdrawals_leave_the_disk_within_three_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let relay = Relay::within(folder, with_journal).await;
    let mut bob = relay.client("Bob").await;
    let mut letters = vec![attacked(&relay, &mut bob, 2).await];
    let gone = bob.id;
    drop(bob);
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Target { client: ada.id }).await;
    letters.push(attacked(&relay, &mut ada, 1).await);
    let holds = || {
        let text = fs::read_to_string(&path).unwrap();
        letters.iter().map(|picture| text.contains(picture)).collect::<Vec<_>>()
    };
    assert_eq!(holds(), [true, true]);
    let asked = Instant::now();
    relay.control(Control::Remove { client: gone }).await;
    relay.control(Control::Remove { client: ada.id }).await;
    while holds() != [false, false] {
        assert!(asked.elapsed() < Duration::from_secs(4), "{:?} after {:?}", holds(), asked.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The archive's page shows recorded results that the room no longer shows.
#[tokio::test]
async fn the_class_gets_a_page_of_its_results() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    let letters = attacked(&relay, &mut ada, 1).await;
    let (attack, psnr, ssim) = (AttackMethod::Embedding, 40.0, 0.97);
    ada.socket.send(&ClientMessage::Score { round: 1, attack, psnr, ssim }, &[]).await;
    taken_when(&relay, "the score", |room| find_card(room, "embedding").is_some_and(|card| card.ssim == Some(ssim)))
        .await;
    relay
        .control(Control::AskPoll { poll: Poll { question: Question::Half, suspects: Vec::new(), correct: Some(1) } })
        .await;
    let poll =
        relay.room_when("a question", |room| room.lesson.poll.is_some()).await.lesson.poll.expect("a poll").number;
    ada.socket.send(&ClientMessage::Vote { poll, answer: 1 }, &[]).await;
    relay.room_when("the vote", |room| room.lesson.poll.as_ref().is_some_and(|poll| poll.voters == 1)).await;
    relay.control(Control::ClosePoll).await;
    taken_when(&relay, "the votes", |room| room.lesson.poll.as_ref().is_some_and(|poll| !poll.votes.is_empty())).await;
    relay.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() }).await;
    drop(ada);
    relay.room_when("nothing is shown", |room| room.attacks.is_empty()).await;

    let token = format!("Bearer {}", relay.running.token());
    let headers = [("authorization", token.as_str())];
    let (status, _, body) = http_bytes(&relay.running, "GET", "/api/session.zip", &headers, "").await;
    assert_eq!(status, 200);
    let mut archive = ZipArchive::new(Cursor::new(body)).unwrap();
    let mut text = |name: &str| {
        let mut text = String::new();
        archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    let page = text("results.html");
    assert!(page.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "), "{page}");
    for part in ["Ada", "0.97", "recognisable", "1 round", &letters, unmask_words::take_home()[0]] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("src=\"http") && !page.contains("<script") && !page.contains("href="), "{page}");
    let answers = text("answers.csv");
    let lines: Vec<&str> = answers.lines().skip(1).collect();
    assert!(lines.len() == 2 && lines[1].ends_with(",No,1,0,true"), "{answers}");
    assert!(!answers.contains("Ada"), "{answers}");
    let results: serde_json::Value = serde_json::from_str(&text("results.json")).unwrap();
    assert_eq!(results["findings"][0]["level"], "recognisable");
    assert_eq!((&results["findings"][0]["attack"], &results["losses"][0]["round"]), (&"embedding".into(), &1.into()));
}

#[tokio::test]
async fn a_relay_that_starts_again_goes_on_recording() {
    let relay = Relay::with(with_journal).await;
    let mut ada = relay.client("Ada").await;
    let letters = attacked(&relay, &mut ada, 1).await;
    let before = taken(&relay).await;
    let folder = relay.stop().await;
    let relay = Relay::within(folder, with_journal).await;
    let ada = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    let recording =
        taken_when(&relay, "the return", |room| room.log.iter().any(|line| line.text == "Ada is back.")).await;
    assert_eq!(recording.began(), before.began());
    assert!(recording.last_at() > before.last_at() && recording.text_from(0).unwrap().contains(&letters));
    // Consent to recorded pictures can still be withdrawn.
    let mut ada = ada;
    ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]).await;
    relay.room_when("the withdrawal", |room| room.clients.iter().all(|client| !client.may_show)).await;
    assert!(!taken(&relay).await.text_from(0).unwrap().contains(&letters));
    // A new lesson has a new recording.
    let folder = relay.stop().await;
    let relay = Relay::within(folder, |config| {
        config.room.journal = Some(JournalConfig { begins_anew: true, ..JournalConfig::default() });
    })
    .await;
    taken_when(&relay, "the other lesson", |room| room.clients.is_empty()).await;
    let folder = relay.stop().await;
    assert!(folder.path().join(format!("{NAME}.old")).exists());
}

#[tokio::test]
async fn a_lesson_need_not_be_recorded_and_needs_no_disk() {
    let relay = Relay::with(|config| {
        with_journal(config);
        config.recording = false;
    })
    .await;
    let token = format!("Bearer {}", relay.running.token());
    let headers = [("authorization", token.as_str())];
    let (status, _, sentence) = http(&relay.running, "GET", "/api/lesson.unmask", &headers, "").await;
    assert!(status == 404 && sentence.contains("--no-recording"), "{status} {sentence}");
    let (status, ..) = http_bytes(&relay.running, "GET", "/api/session.zip", &headers, "").await;
    assert_eq!(status, 200);
    assert!(relay.running.recording().await.is_err());
    let folder = relay.stop().await;
    assert!(!folder.path().join(NAME).exists());

    let relay = Relay::start().await;
    let _ada = relay.client("Ada").await;
    taken_when(&relay, "Ada", |room| room.clients.len() == 1).await;
    let folder = relay.stop().await;
    assert!(!folder.path().join(NAME).exists());
}

/// Sends one request to a replay. Returns status and body.
async fn get(replaying: &Replaying, path: &str, host: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(replaying.served()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a header");
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    assert!(head.contains("content-security-policy") && head.contains("nosniff"), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), answer[end + 4..].to_vec())
}

#[tokio::test]
async fn a_recording_is_replayed_on_this_machine_alone() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    attacked(&relay, &mut ada, 1).await;
    let recording = taken(&relay).await;
    let folder = tempfile::tempdir().unwrap();
    if !relay.running.has_page() {
        assert!(replay(&recording, 0).unwrap_err().to_string().contains("cargo demo"));
        assert!(export_replay(&recording, folder.path()).is_err());
        return;
    }
    let replaying = replay(&recording, 0).unwrap();
    let host = format!("localhost:{}", replaying.served().port());
    assert!(replaying.served().ip().is_loopback() && replaying.address() == format!("http://{host}/replay.html"));
    let (status, page) = get(&replaying, "/replay.html", &host).await;
    assert!(status == 200 && String::from_utf8(page).unwrap().contains("<html"));
    let (status, file) = get(&replaying, "/lesson.unmask", &host).await;
    assert_eq!((status, Recording::read(&file).unwrap().recording.len()), (200, recording.len()));
    for (path, host, wanted) in [
        ("/", host.as_str(), 303),
        ("/api/room", &host, 404),
        ("/api/session", &host, 404),
        ("/../Cargo.toml", &host, 404),
        ("/lesson.unmask", "evil.test", 421),
    ] {
        assert_eq!(get(&replaying, path, host).await.0, wanted, "{path} of {host}");
    }
    let error = replay(&recording, replaying.served().port()).unwrap_err().to_string();
    assert!(error.contains("--port"), "{error}");

    export_replay(&recording, folder.path()).unwrap();
    let file = fs::read(folder.path().join(NAME)).unwrap();
    assert_eq!(Recording::read(&file).unwrap().recording.len(), recording.len());
    let page = fs::read_to_string(folder.path().join("replay.html")).unwrap();
    for part in page.split(['"', '\'']).filter_map(|part| part.strip_prefix("./")) {
        assert!(folder.path().join(part).exists(), "{part} is not in the folder");
    }
}

/// After a deletion no file in the data folder has the student's name or picture, not even one of an earlier lesson.
#[tokio::test]
async fn a_deletion_leaves_nothing_in_the_data_folder() {
    const NICKNAME: &str = "Zquixotine";
    let mut letters = Vec::new();
    let mut folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let holders = |letters: &[String]| -> Vec<String> {
        let canaries = letters.iter().map(String::as_str).chain([NICKNAME]);
        let canaries: Vec<&[u8]> = canaries.map(str::as_bytes).collect();
        let files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let holds = |path: &std::path::PathBuf| {
            let bytes = fs::read(path).unwrap_or_default();
            canaries.iter().any(|canary| bytes.windows(canary.len()).any(|part| part == *canary))
        };
        files.filter(holds).map(|path| path.display().to_string()).collect()
    };
    for lesson in 1..=2 {
        let relay = Relay::within(folder, |config| {
            config.room.journal = Some(JournalConfig { begins_anew: true, ..JournalConfig::default() });
        })
        .await;
        let mut student = relay.client(NICKNAME).await;
        letters.push(attacked(&relay, &mut student, lesson).await);
        if lesson == 2 {
            relay.room_when("the round on disk", |room| room.journal.as_ref().is_some_and(|j| j.round == 1)).await;
            assert!(holders(&letters).len() >= 4, "{:?}", holders(&letters));
            student.socket.send(&ClientMessage::Forget, &[]).await;
            assert_eq!(student.socket.goodbye().await, FORGOTTEN);
            timeout(PATIENCE, async {
                while !holders(&letters).is_empty() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
            .await
            .unwrap_or_else(|_| panic!("{:?}", holders(&letters)));
        }
        folder = relay.stop().await;
    }
    assert_eq!(holders(&letters), [""; 0]);
}
