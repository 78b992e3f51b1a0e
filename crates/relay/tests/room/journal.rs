//! The journal: what a restarted relay resumes.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::support::{Client, Plan, Relay, Socket, config, gradient, http, http_bytes, protect, state, upgrade, view};
use redb::ReadableTable as _;
use tempfile::TempDir;
use tokio_tungstenite::connect_async;
use unmask_attack::NoSearches;
use unmask_core::{Architecture, ModelState, VitPreset};
use unmask_defence::KeyMaterial;
use unmask_relay::{JournalConfig, RelayConfig, Running, last_lesson, serve};
use unmask_wire::{
    ClientMessage,
    view::{ClientState, Control, Phase},
};
use zip::ZipArchive;

fn with_journal(config: &mut RelayConfig) {
    config.room.journal = Some(JournalConfig::default());
}

async fn start(folder: TempDir) -> Relay {
    Relay::within(folder, with_journal).await
}

async fn begin() -> Relay {
    start(tempfile::tempdir().unwrap()).await
}

/// Lets two clients answer a plan.
async fn answer(clients: &mut [Client; 2], plan: &Plan) {
    for (number, client) in clients.iter_mut().enumerate() {
        client.update(plan, gradient(number + plan.round as usize)).await;
    }
}

/// Runs `rounds` rounds with two clients. Returns the clients and all plans; the last one is unanswered.
async fn lesson(relay: &Relay, rounds: u32) -> ([Client; 2], Vec<Plan>) {
    let mut clients = [relay.client("Ada").await, relay.client("Bob").await];
    relay.control(Control::Start).await;
    let mut plans = Vec::new();
    for _ in 0..=rounds {
        let (plan, other) = (clients[0].plan().await, clients[1].plan().await);
        assert_eq!((plan.round, &plan.weights), (other.round, &other.weights));
        if plan.round <= rounds {
            answer(&mut clients, &plan).await;
        }
        plans.push(plan);
    }
    relay.room_when("the last round on disk", |room| room.journal.as_ref().is_some_and(|j| j.round == rounds)).await;
    (clients, plans)
}

async fn come_back(relay: &Relay, clients: &[Client; 2]) -> [Client; 2] {
    let [ada, bob] = clients;
    [
        Client::join(&relay.running, &ada.nickname, Some(ada.ticket)).await,
        Client::join(&relay.running, &bob.nickname, Some(bob.ticket)).await,
    ]
}

/// With masks and Adam, the interrupted round restarts from bit-identical weights.
#[tokio::test]
async fn a_relay_that_starts_again_goes_on() {
    let relay = Relay::with(|config| {
        with_journal(config);
        config.room.defence = "random-binary:0.5".parse().unwrap();
        config.room.optimiser = "adam:0.01".parse().unwrap();
    })
    .await;
    assert!(relay.running.resumed().is_none());
    let (clients, plans) = lesson(&relay, 3).await;
    let before = relay.room().await;
    let secrets =
        |running: &Running| [running.token().to_owned(), running.projector_secret().to_owned(), running.room_key()];
    let (opened, pin) = (secrets(&relay.running), relay.running.pin());
    let folder = relay.stop().await;

    let relay = start(folder).await;
    let resumed = relay.running.resumed().unwrap().clone();
    assert_eq!((resumed.round, resumed.model.as_str()), (3, "vit_pico_patch4_16"));
    assert_eq!(secrets(&relay.running), opened, "the links of before");
    assert_eq!((relay.running.pin(), relay.room().await.pin), (pin.clone(), pin));
    relay.log_line("the lesson goes on after round 3").await;
    let room = relay.room().await;
    assert!(room.round == 3 && matches!(room.phase, Phase::Between | Phase::Waiting), "{:?}", room.phase);
    assert_eq!((&room.losses, &room.update_counts), (&before.losses, &before.update_counts));
    assert_eq!((room.defence, room.optimiser), (before.defence, before.optimiser));
    assert_eq!(room.log[..before.log.len()], before.log);
    for name in ["Ada", "Bob"] {
        let (now, then) = (view(&room, name), view(&before, name));
        assert_eq!((now.state, now.updates, now.bytes_sent), (ClientState::Gone, 3, then.bytes_sent));
        assert_eq!((now.id, now.loss), (then.id, then.loss));
    }

    let mut back = come_back(&relay, &clients).await;
    assert_eq!([back[0].id, back[1].id], [clients[0].id, clients[1].id]);
    let [plan, other] = [back[0].plan().await, back[1].plan().await];
    assert_eq!(plan.round, other.round);
    assert_eq!((plan.round, plan.policy), (4, plans[3].policy));
    assert!(plan.weights == plans[3].weights, "other weights");
    // A mask seed from before the restart is refused.
    let keys = KeyMaterial { seed: clients[0].seed(&plans[2]), cipher: None };
    back[0].send_update(&plan, 1.0, protect(&plan, gradient(1), keys)).await;
    assert!(back[0].refusal().await.contains("seed was used before"));
    back[1].update(&plan, gradient(1)).await;
    assert_eq!(back[1].plan().await.round, 5);
    let room = relay.room_when("a fourth round", |room| room.losses.len() == 4).await;
    assert_eq!(room.update_counts.unwrap().rounds, 4);
}

/// The accountant continues after a restart, since sent updates cannot be unsent. It also counts the interrupted round
/// and one that may have closed without being written, because the relay may have received their updates.
#[tokio::test]
async fn privacy_is_accounted_for_across_a_restart() {
    let relay = Relay::with(|config| {
        with_journal(config);
        config.room.defence = "gaussian:eps=4,delta=0.00001,clip=0.5".parse().unwrap();
    })
    .await;
    let (clients, _) = lesson(&relay, 2).await;
    let before = relay.room().await.guarantee.unwrap();
    assert_eq!(before.rounds, 2);
    let relay = start(relay.stop().await).await;
    let after = relay.room().await.guarantee.unwrap();
    assert!(after.rounds == 4 && after.epsilon > before.epsilon, "{after:?} after {before:?}");
    let mut back = come_back(&relay, &clients).await;
    let (plan, _) = (back[0].plan().await, back[1].plan().await);
    answer(&mut back, &plan).await;
    let third = relay.room_when("a third round", |room| room.losses.len() == 3).await.guarantee.unwrap();
    assert!(third.rounds == 5 && third.epsilon > after.epsilon, "{third:?} after {after:?}");
}

/// Choices made between rounds are saved too.
#[tokio::test]
async fn choices_of_a_paused_room_stay() {
    let relay = begin().await;
    relay.control(Control::Defence { defence: "random-binary:0.25".parse().unwrap() }).await;
    relay.control(Control::AprilBlock { on: true }).await;
    relay.control(Control::AttackBudget { seconds: 3.0 }).await;
    relay.control(Control::EvaluationBudget { seconds: 4.0 }).await;
    let before = relay.room().await;
    let relay = start(relay.stop().await).await;
    let room = relay.room().await;
    assert_eq!((room.phase, room.round, &room.next), (Phase::Paused, 0, &before.next));
    assert!(room.next.is_some() && room.budget.seconds == 3.0);
    relay.control(Control::OneRound).await;
    let mut ada = relay.client("Ada").await;
    let plan = ada.plan().await;
    assert!(plan.model.april_block && plan.defence.to_string() == "random-binary:0.25");
}

/// A returning target is attacked again, even if another client joined first, and its search continues.
#[tokio::test]
async fn target_and_search_stay() {
    let searching = |config: &mut RelayConfig| {
        with_journal(config);
        config.searches = Some(Arc::new(NoSearches));
    };
    let relay = Relay::within(tempfile::tempdir().unwrap(), searching).await;
    let (ada, bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::Target { client: bob.id }).await;
    relay.control(Control::Search { on: true }).await;
    let relay = Relay::within(relay.stop().await, searching).await;
    let room = relay.room().await;
    assert_eq!((room.target, room.search), (None, Some(true)), "nobody is there");

    let ada = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    relay.room_when("Ada in his place", |room| room.target == Some(ada.id)).await;
    let relay = Relay::within(relay.stop().await, searching).await;
    let bob = Client::join(&relay.running, "Bob", Some(bob.ticket)).await;
    relay.room_when("Bob under attack", |room| room.target == Some(bob.id)).await;
    let ada = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    assert_eq!(relay.room().await.target, Some(bob.id), "no longer waited for");
    relay.control(Control::Target { client: ada.id }).await;
    relay.control(Control::Search { on: false }).await;

    // A relay without searches shows none.
    let relay = start(relay.stop().await).await;
    assert_eq!(relay.room().await.search, None);
    let ada = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    relay.room_when("Ada under attack", |room| room.target == Some(ada.id)).await;
}

/// Opens a socket with a device cookie and sends a hello.
async fn browser(relay: &Relay, nickname: &str) -> Socket {
    let mut request = upgrade(&relay.running);
    let cookie = format!("unmask-{}-device=e5e", relay.running.http().port());
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    let mut socket = Socket::on(connect_async(request).await.unwrap().0);
    socket.hello(nickname, None).await;
    socket
}

/// Known clients may return to a locked room, and are attacked only with their consent.
#[tokio::test]
async fn lock_bans_and_consent_stay() {
    let relay = begin().await;
    let mut eve = Client::welcomed(browser(&relay, "Eve").await).await;
    relay.control(Control::Ban { client: eve.id }).await;
    assert!(eve.socket.goodbye().await.contains("banned"));
    let cleo = Client::join_unseen(&relay.running, "Cleo").await;
    let ada = relay.client("Ada").await;
    relay.control(Control::Lock { on: true }).await;

    let relay = start(relay.stop().await).await;
    let room = relay.room().await;
    assert_eq!((room.is_locked, room.banned, room.target), (true, 1, None));
    assert_eq!((view(&room, "Cleo").may_show, view(&room, "Ada").may_show), (false, true));
    let mut stranger = Socket::open(&relay.running).await;
    stranger.hello("Bob", None).await;
    let reason = stranger.goodbye().await;
    assert!(reason.contains("locked"), "{reason}");

    let mut back = Socket::open(&relay.running).await;
    let (nickname, device) = ("Cleo".to_owned(), "test".to_owned());
    let hello = ClientMessage::Hello {
        nickname,
        resume: Some(cleo.ticket),
        device,
        may_show: false,
        may_lend: false,
        is_robot: false,
        commitment: [0; 32],
        page: [0; 32],
    };
    back.send(&hello, &[]).await;
    let back = Client::welcomed(back).await;
    assert_eq!(back.id, cleo.id);
    let room = relay.room_when("Cleo back", |room| state(room, "Cleo") == Some(ClientState::Joined)).await;
    assert_eq!(room.target, None);
    assert_eq!(relay.try_control(&Control::Target { client: back.id }).await.0, 400);
    let agrees = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    assert_eq!(agrees.id, ada.id);
    relay.room_when("Ada under attack", |room| room.target == Some(ada.id)).await;

    relay.control(Control::Lock { on: false }).await;
    let reason = browser(&relay, "Mallory").await.goodbye().await;
    assert!(reason.contains("banned"), "{reason}");
}

/// Clients get the same shards after a restart.
#[tokio::test]
async fn shared_pictures_are_divided_as_they_were() {
    let relay = begin().await;
    relay.control(Control::Partition { partition: "dirichlet:0.5".parse().unwrap() }).await;
    relay.control(Control::TrainOn { pictures: unmask_core::TrainOn::Shared }).await;
    relay.control(Control::OneRound).await;
    let mut ada = relay.client("Ada").await;
    let (header, labels, pixels) = ada.shard().await;
    let plan = ada.plan().await;
    ada.update(&plan, gradient(1)).await;
    relay.room_when("the round on disk", |room| room.journal.as_ref().is_some_and(|j| j.round == 1)).await;
    let relay = start(relay.stop().await).await;
    relay.control(Control::OneRound).await;
    let mut back = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    assert!(back.shard().await == (header, labels, pixels), "another shard");
    assert_eq!(back.plan().await.pictures, plan.pictures);
}

const FILES: [&str; 2] = ["journal-a.redb", "journal-b.redb"];

/// Returns the journal's file with the newer state.
fn newer(folder: &Path) -> PathBuf {
    let round = |name: &&str| {
        // A journal with only this file.
        let alone = tempfile::tempdir().unwrap();
        fs::copy(folder.join(name), alone.path().join(name)).unwrap();
        last_lesson(alone.path()).unwrap().0.unwrap().round
    };
    folder.join(FILES.into_iter().max_by_key(round).unwrap())
}

#[tokio::test]
async fn a_torn_file_costs_what_was_written_last() {
    let relay = begin().await;
    let (clients, plans) = lesson(&relay, 3).await;
    let folder = relay.stop().await;
    OpenOptions::new().write(true).open(newer(folder.path())).unwrap().set_len(4096).unwrap();
    let relay = start(folder).await;
    relay.log_line("it was set aside as").await;
    assert_eq!(relay.running.resumed().unwrap().round, 2);
    let mut back = come_back(&relay, &clients).await;
    let plan = back[0].plan().await;
    assert!(plan.round == 3 && plan.weights == plans[2].weights, "round {}", plan.round);
    answer(&mut back, &plan).await;
    let plan = back[0].plan().await;
    assert!(plan.round == 4 && plan.weights == plans[3].weights, "the same round gives the same weights");
}

/// The names and bytes of all files in a folder.
fn everything(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Gives a file of the journal the format of another version.
fn rewrite(file: &Path, format: u32) {
    let table = redb::TableDefinition::<(&str, u32), &[u8]>::new("lesson");
    let database = redb::Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut header = transaction.open_table(table).unwrap();
    let mut body = header.get(("header", 0)).unwrap().unwrap().value()[32..].to_vec();
    body[..4].copy_from_slice(&format.to_le_bytes());
    let hash = ring::digest::digest(&ring::digest::SHA256, &body);
    header.insert(("header", 0), [hash.as_ref(), &body].concat().as_slice()).unwrap();
    drop(header);
    transaction.commit().unwrap();
}

/// A relay that cannot read a lesson does not start until another one is asked for. Neither it nor `unmask journal`
/// changes a byte.
#[tokio::test]
async fn a_lesson_that_cannot_be_read_stays_until_another_is_asked_for() {
    let relay = begin().await;
    let (_clients, _) = lesson(&relay, 1).await;
    let token = relay.running.token().to_owned();
    let folder = relay.stop().await;
    let whole = everything(folder.path());
    assert_eq!(last_lesson(folder.path()).unwrap().0.unwrap().round, 1);
    assert!(everything(folder.path()) == whole, "it was only looked at");

    let [a, b] = FILES.map(|name| folder.path().join(name));
    let spoil: [(&str, &dyn Fn()); 3] = [
        ("in format 1000", &|| rewrite(&a, 1000)),
        ("in format 7", &|| [&a, &b].into_iter().for_each(|file| rewrite(file, 7))),
        ("is damaged", &|| [&a, &b].into_iter().for_each(|file| fs::write(file, "rubbish").unwrap())),
    ];
    for (problem, spoil) in spoil {
        whole.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
        spoil();
        let spoiled = everything(folder.path());
        let mut config = config(folder.path().to_path_buf());
        with_journal(&mut config);
        for error in [serve(config).await.unwrap_err(), last_lesson(folder.path()).unwrap_err()] {
            let error = format!("{error:#}");
            for part in [problem, &a.display().to_string(), "Nothing was changed", "--new"] {
                assert!(error.contains(part), "no {part:?} in {error}");
            }
        }
        assert!(everything(folder.path()) == spoiled, "{problem}");
    }

    let spoiled = everything(folder.path());
    let relay = Relay::within(folder, |config| {
        config.room.journal = Some(JournalConfig { begins_anew: true, ..JournalConfig::default() });
    })
    .await;
    assert_ne!(relay.running.token(), token);
    let now = everything(relay.stop().await.path());
    for name in FILES {
        assert!(now[&format!("{name}.old")] == spoiled[name]);
    }
}

/// One damaged file costs a round; to look at it costs nothing.
#[tokio::test]
async fn to_look_at_a_damaged_journal_changes_nothing() {
    let relay = begin().await;
    let (_clients, _) = lesson(&relay, 2).await;
    let folder = relay.stop().await;
    let newer = newer(folder.path());
    OpenOptions::new().write(true).open(&newer).unwrap().set_len(4096).unwrap();
    let before = everything(folder.path());
    let (last, problems) = last_lesson(folder.path()).unwrap();
    assert_eq!(last.unwrap().round, 1);
    assert!(problems.len() == 1 && problems[0].contains(&newer.display().to_string()), "{problems:?}");
    assert!(everything(folder.path()) == before);
}

/// A room that panics goes on from its journal, behind the same links. One that does so again and again ends the relay.
#[tokio::test]
async fn a_room_that_breaks_down_goes_on_and_not_forever() {
    let mut relay = begin().await;
    let (mut clients, mut plans) = lesson(&relay, 2).await;
    let mut plan = plans.pop().unwrap();
    let weights = plan.weights.clone();
    let (token, pin) = (relay.running.token().to_owned(), relay.running.pin());
    for breakdown in 1..=2 {
        relay.running.break_room().await;
        for client in &mut clients {
            while client.socket.message().await.is_some() {}
        }
        clients = come_back(&relay, &clients).await;
        let other = clients[1].plan().await;
        plan = clients[0].plan().await;
        assert_eq!((plan.round, other.round), (3, 3));
        assert!(plan.weights == weights, "the weights after round 2");
        let room = relay.room().await;
        let restarts = room.log.iter().filter(|line| line.text.contains("the lesson goes on after round 2"));
        assert_eq!((restarts.count(), room.losses.len()), (breakdown, 2));
        assert_eq!((relay.running.token(), &room.pin), (token.as_str(), &pin));
    }
    answer(&mut clients, &plan).await;
    relay.room_when("round 3 on disk", |room| room.journal.as_ref().is_some_and(|j| j.round == 3)).await;
    relay.running.break_room().await;
    relay.is_broken().await;
    assert_eq!(last_lesson(relay.stop().await.path()).unwrap().0.unwrap().round, 3);
}

/// Nothing is left to go on from.
#[tokio::test]
async fn a_room_without_a_journal_ends_when_it_breaks_down() {
    let mut relay = Relay::start().await;
    relay.running.break_room().await;
    relay.is_broken().await;
}

/// If the journal cannot be written, as on a full disk, the room reports it, continues and retries.
#[tokio::test]
async fn what_cannot_be_written_is_said_and_the_room_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    // A folder in place of the first file blocks its creation.
    let obstacle = folder.path().join("journal-b.unfinished");
    fs::create_dir(&obstacle).unwrap();
    let relay = start(folder).await;
    relay.log_line("The lesson is not on the disk").await;
    let mut clients = [relay.client("Ada").await, relay.client("Bob").await];
    relay.control(Control::Start).await;
    for round in 1..=3 {
        let plan = clients[0].plan().await;
        assert_eq!(plan.round, round);
        answer(&mut clients, &plan).await;
    }
    let failure = relay.room().await.journal.unwrap().failure.unwrap();
    assert!(failure.contains("journal-b.redb cannot be written") && failure.contains("Free some space"), "{failure}");
    fs::remove_dir(&obstacle).unwrap();
    let plan = clients[0].plan().await;
    answer(&mut clients, &plan).await;
    relay.log_line("The lesson is on the disk again, up to round").await;
    let room = relay.room().await;
    assert_eq!(room.journal.unwrap().failure, None);
    let said = room.log.iter().filter(|line| line.text.contains("not on the disk")).count();
    assert_eq!(said, 1, "the same failure is said once");
    assert!(last_lesson(relay.stop().await.path()).unwrap().0.unwrap().round >= 4);
}

#[tokio::test]
async fn another_lesson_begins_where_it_is_asked_for() {
    let relay = begin().await;
    let (_clients, _) = lesson(&relay, 2).await;
    let token = relay.running.token().to_owned();
    let folder = relay.stop().await;
    let known = last_lesson(folder.path()).unwrap().0.unwrap();
    assert_eq!(known.round, 2);

    let mut refused = config(folder.path().to_path_buf());
    refused.room.architecture = Architecture::from(VitPreset::Nano);
    refused.room.journal = Some(JournalConfig { given: vec!["--model".to_owned()], ..JournalConfig::default() });
    let error = serve(refused.clone()).await.unwrap_err().to_string();
    assert!(error.contains("--model vit_pico_patch4_16") && error.contains("--new"), "{error}");

    // A value that was not given as a flag does not have to match.
    refused.room.journal = Some(JournalConfig::default());
    let running = serve(refused.clone()).await.unwrap();
    assert_eq!(running.resumed().unwrap(), &known);
    let error = serve(refused.clone()).await.unwrap_err();
    assert!(error.to_string().contains("another relay keeps its journal"), "{error}");
    running.shutdown().await;

    let relay = Relay::within(folder, |config| {
        config.room.journal = Some(JournalConfig { begins_anew: true, ..JournalConfig::default() });
    })
    .await;
    let room = relay.room().await;
    assert_eq!((room.round, room.clients.len(), room.phase), (0, 0, Phase::Paused));
    assert_ne!(relay.running.token(), token);
    let folder = relay.stop().await;
    assert!(folder.path().join("journal-a.redb.old").exists());
    assert_eq!(last_lesson(folder.path()).unwrap().0.unwrap().round, 0);
}

#[tokio::test]
async fn without_a_journal_nothing_is_written() {
    let relay = Relay::start().await;
    assert_eq!(relay.room().await.journal, None);
    let folder = relay.stop().await;
    assert!(last_lesson(folder.path()).unwrap().0.is_none());
    assert!(!folder.path().join("room.key").exists());
}

/// Reading the journal does not grant access to the room.
#[tokio::test]
async fn no_ticket_and_no_secret_is_in_the_journal() {
    let relay = begin().await;
    let (clients, _) = lesson(&relay, 2).await;
    let (token, pin) = (relay.running.token().to_owned(), relay.running.pin());
    let folder = relay.stop().await;
    for name in FILES {
        let bytes = fs::read(folder.path().join(name)).unwrap();
        let holds = |secret: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
        assert!(holds(b"vit_pico_patch4_16"), "not as it is written");
        assert!(clients.iter().all(|client| !holds(&client.ticket)) && !holds(token.as_bytes()));
        assert!(!holds(pin.as_bytes()));
    }
}

fn read(archive: &mut ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn raw(_: Architecture, state: &ModelState) -> anyhow::Result<Vec<u8>> {
    Ok(state.weights.iter().flat_map(|value| value.to_le_bytes()).collect())
}

#[tokio::test]
async fn the_teacher_takes_the_lesson_home() {
    let relay = Relay::with(|config| {
        with_journal(config);
        config.model_file = Some(raw);
    })
    .await;
    let (_clients, plans) = lesson(&relay, 2).await;
    let (status, ..) = http(&relay.running, "GET", "/api/session.zip", &[], "").await;
    assert_eq!(status, 401);
    let token = format!("Bearer {}", relay.running.token());
    let headers = [("authorization", token.as_str())];
    let (status, head, body) = http_bytes(&relay.running, "GET", "/api/session.zip", &headers, "").await;
    assert!(status == 200 && head.contains("application/zip") && head.contains("session.zip"), "{status} {head}");
    let mut archive = ZipArchive::new(Cursor::new(body)).unwrap();
    let metrics = String::from_utf8(read(&mut archive, "metrics.csv")).unwrap();
    let rows: Vec<&str> = metrics.lines().collect();
    assert_eq!((rows.len(), rows[0].split(',').count()), (3, rows[1].split(',').count()), "{metrics}");
    assert!(rows[2].contains(",1,2,none,fedsgd,sgd:0.5,mean,1,2,0,0,0,2,1,"), "{metrics}");
    let events = String::from_utf8(read(&mut archive, "events.jsonl")).unwrap();
    let texts: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
        .collect();
    assert!(texts.iter().any(|text| text == "Ada joined."), "{texts:?}");
    let settings: serde_json::Value = serde_json::from_slice(&read(&mut archive, "settings.json")).unwrap();
    assert_eq!((&settings["round"], &settings["flags"]["--optimiser"]), (&2.into(), &"sgd:0.5".into()));
    let state = ModelState::from_weights(plans[2].weights.clone());
    assert!(read(&mut archive, "model.safetensors") == raw(Architecture::from(VitPreset::Pico), &state).unwrap());
    // The archive and the journal agree on the weights' digest.
    let folder = relay.stop().await;
    assert_eq!(settings["weights_sha256"], last_lesson(folder.path()).unwrap().0.unwrap().weights);
}
