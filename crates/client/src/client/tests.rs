use std::sync::LazyLock;

use proptest::prelude::*;
use unmask_core::{
    Architecture, Defence, EncryptionStart, KeyCheck, ParamGroup, Partition, Rule, TrainingPictures, UpdateForm,
    VitPreset,
};
use unmask_data::{Picture, chw_to_hwc};
use unmask_defence::{Cipher, FROZEN_SEED, Mask, RoomKey, drawn_seed};
use unmask_lesson::Scene;
use unmask_wire::{PlanHeader, ServerPlan, ShardHeader, check_original};

use super::*;
use crate::PictureSelection;

const PASSPHRASE: &str = "violet otter 1867";
const SALT: [u8; 16] = [7; 16];
const MODEL: &str = "vit_pico_patch4_16";

fn architecture() -> Architecture {
    Architecture::from(VitPreset::Pico)
}

fn layout() -> unmask_core::ParamLayout {
    architecture().layout()
}

/// The cipher that another client derived from the same passphrase.
static CIPHER: LazyLock<Cipher> = LazyLock::new(|| {
    Cipher::new(&RoomKey::derive(PASSPHRASE, &SALT, EncryptionStart::Plain).unwrap(), &layout()).unwrap()
});

fn global() -> Vec<f32> {
    (0..layout().len()).map(|i| (i as f32 * 0.61).sin()).collect()
}

/// Shares no value with [`global`].
fn trained() -> Vec<f32> {
    (0..layout().len()).map(|i| i as f32 + 2.0).collect()
}

fn step() -> LocalUpdate {
    LocalUpdate { loss: 1.0, values: trained(), statistics: Vec::new(), samples: 3 }
}

/// A plan as the relay sends it, with encrypted weights under an encrypted defence.
fn plan_frames(defence: &str, rule: &str) -> Vec<Vec<u8>> {
    let mut weights = global();
    let encryption = defence.starts_with("encrypted").then(|| {
        CIPHER.encrypt(&mut weights).unwrap();
        EncryptionPlan { salt: SALT, check: CIPHER.check() }
    });
    frames(&plan_header(MODEL, defence, rule, encryption), &weights).unwrap()
}

fn plan_header(model: &str, defence: &str, rule: &str, encryption: Option<EncryptionPlan>) -> RelayMessage {
    RelayMessage::Plan(PlanHeader {
        round: 4,
        policy: 2,
        model: described(model, 10),
        defence: defence.parse().unwrap(),
        rule: rule.parse().unwrap(),
        batch: 1,
        pictures: TrainingPictures::Private,
        encryption,
        sum: None,
        nonce: [9; 16],
        least: 3,
        server: ServerPlan::default(),
    })
}

fn described(model: &str, classes: u16) -> ModelDescription {
    ModelDescription { name: model.to_owned(), april_block: false, classes }
}

fn seal_frames(weights: &[f32]) -> Vec<Vec<u8>> {
    let header = RelayMessage::Seal { policy: 9, model: described(MODEL, 10), salt: SALT };
    frames(&header, weights).unwrap()
}

fn receive(client: &mut Client, frames: &[Vec<u8>]) -> Option<Action> {
    frames.iter().map(|frame| client.receive(frame).unwrap()).last().unwrap()
}

fn decode(frames: &[Vec<u8>]) -> (ClientMessage, Vec<f32>) {
    let mut assembler = Assembler::new(1 << 20);
    frames.iter().map(|frame| assembler.push(frame).unwrap()).last().unwrap().unwrap()
}

fn client(passphrase: Option<&str>) -> Client {
    let mut client = Client::new("Ada", "CPU");
    client.set_passphrase(passphrase.map(str::to_owned));
    client.hello([1; 32]).unwrap();
    client
}

fn planned(client: &mut Client, defence: &str, rule: &str) -> Box<RoundPlan> {
    match receive(client, &plan_frames(defence, rule)) {
        Some(Action::Train(plan)) => plan,
        other => panic!("{other:?} instead of a plan"),
    }
}

/// Nickname, ticket and consent of the next hello.
fn hello(client: &mut Client) -> (String, Option<[u8; 16]>, (bool, bool)) {
    match decode(&client.hello([1; 32]).unwrap()).0 {
        ClientMessage::Hello { nickname, resume, may_show, may_lend, .. } => (nickname, resume, (may_show, may_lend)),
        other => panic!("{other:?} instead of a hello"),
    }
}

#[test]
fn every_welcome_brings_the_ticket_of_the_next_hello() {
    assert_eq!(hello(&mut client(None)).1, None);
    let mut client = client(None).resuming([4; 16]);
    assert_eq!(hello(&mut client).1, Some([4; 16]));
    for ticket in [[5; 16], [6; 16]] {
        let welcome = RelayMessage::Welcome { client: ClientId(1), resume: ticket, nickname: "Ada".into() };
        receive(&mut client, &frames(&welcome, &[]).unwrap());
        assert_eq!((hello(&mut client).1, client.ticket()), (Some(ticket), Some(ticket)));
    }
}

#[test]
fn a_name_that_the_teacher_gave_outlives_the_socket() {
    let mut client = client(None);
    let nickname = "Grace".to_owned();
    let renamed = frames(&RelayMessage::Renamed { nickname: nickname.clone() }, &[]).unwrap();
    match receive(&mut client, &renamed) {
        Some(Action::Report(event)) => assert_eq!(event, ClientEvent::Renamed { nickname: nickname.clone() }),
        other => panic!("{other:?} instead of a new name"),
    }
    assert_eq!(hello(&mut client).0, nickname);
}

#[test]
fn consent_outlives_the_socket() {
    assert_eq!(hello(&mut client(None)).2, (false, false));
    let mut client = client(None).with_consent(true, false);
    assert_eq!(hello(&mut client).2, (true, false));
    for (may_show, may_lend) in [(true, true), (false, false)] {
        let consent = decode(&client.consent(may_show, may_lend).unwrap()).0;
        assert_eq!(consent, ClientMessage::Consent { may_show, may_lend });
        assert_eq!(hello(&mut client).2, (may_show, may_lend));
    }
}

#[test]
fn a_student_votes_shows_a_picture_and_is_forgotten() {
    let mut client = client(None).resuming([4; 16]);
    assert_eq!(decode(&client.vote(3, 2).unwrap()).0, ClientMessage::Vote { poll: 3, answer: 2 });
    assert_eq!(client.original(), None, "it has no picture");
    let pixels = (0..64 * 64 * 3).map(|at| (at % 251) as u8).collect();
    let picture = Picture::new(64, 64, pixels).unwrap();
    client = client.with_pictures(vec![PrivatePicture::new(picture.clone(), 0)]);
    let original = client.original().unwrap();
    // Exactly what a model of this side trains on.
    assert_eq!(original, chw_to_hwc(&picture.for_model(32), 32, 32));
    let (message, values) = decode(&client.show_original(&original).unwrap());
    assert_eq!(message, ClientMessage::Original { side: 32 });
    assert_eq!((check_original(32, &values), values), (Ok(()), original.clone()));
    assert!(client.show_original(&original[1..]).unwrap_err().to_string().contains("send 3072"));
    assert_eq!(decode(&client.hide_original().unwrap()).0, ClientMessage::HideOriginal);
    assert_eq!(decode(&client.forget().unwrap()).0, ClientMessage::Forget);
    assert_eq!((client.ticket(), hello(&mut client).1), (None, None), "nothing to come back with");
}

#[test]
fn news_of_the_lesson_is_passed_on() {
    let mut client = client(None);
    let lesson = LessonState { scene: Scene::April, beat: 2, poll: None, is_careful: true, is_doctored: false };
    for (message, told) in [
        (RelayMessage::Lesson(lesson.clone()), ClientEvent::Lesson(lesson)),
        (
            RelayMessage::Original { is_shown: false, waits: true },
            ClientEvent::Original { is_shown: false, waits: true },
        ),
    ] {
        match receive(&mut client, &frames(&message, &[]).unwrap()) {
            Some(Action::Report(event)) => assert_eq!(event, told),
            other => panic!("{other:?} instead of news"),
        }
    }
}

#[test]
fn a_client_on_a_phone_says_where_it_is() {
    let mut client = client(None);
    for is_hidden in [true, false] {
        assert_eq!(decode(&client.visibility(is_hidden).unwrap()).0, ClientMessage::Visibility { is_hidden });
    }
    assert_eq!(decode(&client.come_back().unwrap()).0, ClientMessage::Return);
    assert_eq!(decode(&client.ping().unwrap()).0, ClientMessage::Ping);
    assert!(receive(&mut client, &frames(&RelayMessage::Pong, &[]).unwrap()).is_none());
    match receive(&mut client, &frames(&RelayMessage::SittingOut, &[]).unwrap()) {
        Some(Action::Report(event)) => assert_eq!(event, ClientEvent::SittingOut),
        other => panic!("{other:?} instead of sitting out"),
    }
}

#[test]
fn socket_dropped_in_mid_message_leaves_no_trace() {
    let mut client = client(None);
    let header = plan_header("vit_nano_patch4_32", "none", "fedsgd", None);
    let long = frames(&header, &vec![0.1; 459_562]).unwrap();
    assert!(client.receive(&long[0]).unwrap().is_none());
    client.hello([1; 32]).unwrap();
    assert_eq!(planned(&mut client, "none", "fedsgd").round, 4);
}

#[test]
fn plan_says_what_to_compute() {
    let plan = planned(&mut client(None), "frozen-binary:0.5", "fedavg:epochs=3,rate=0.02");
    assert_eq!(plan.rule, Rule::FedAvg { epochs: 3, rate: 0.02 });
    assert_eq!(plan.defence.to_string(), "frozen-binary:0.5");
    assert_eq!(plan.state.weights, global());
}

#[test]
fn plan_it_cannot_follow_is_answered() {
    let p = layout().len();
    let key = Some(EncryptionPlan { salt: SALT, check: KeyCheck([0; 16]) });
    for (header, weights, reason) in [
        (plan_header("vit_giant", "none", "fedsgd", None), 3, "unknown model"),
        (plan_header(MODEL, "none", "fedsgd", None), 3, "the relay sent 3 weights"),
        (plan_header(MODEL, "encrypted", "fedsgd", None), p, "its weights are not"),
        (plan_header(MODEL, "none", "fedsgd", key), p, "its defence is none"),
    ] {
        // The passphrase must not change any of these answers.
        for passphrase in [None, Some(PASSPHRASE)] {
            let frames = frames(&header, &vec![0.1; weights]).unwrap();
            let Some(Action::Send(frames)) = receive(&mut client(passphrase), &frames) else {
                panic!("no answer to {header:?}");
            };
            let (ClientMessage::Unable { round: 4, policy: 2, reason: text, is_locked: false }, values) =
                decode(&frames)
            else {
                panic!("another answer to {header:?}");
            };
            assert!(text.contains(reason) && values.is_empty(), "{text}");
        }
    }
}

#[test]
fn encrypted_plan_is_trained_on_in_the_plain() {
    let plan = planned(&mut client(Some(PASSPHRASE)), "encrypted", "fedsgd");
    assert_eq!(plan.cipher.as_ref().unwrap().check(), CIPHER.check());
    close(&plan.state.weights, &global());
}

#[test]
fn encrypted_update_decrypts_to_the_plain_one() {
    for rule in ["fedsgd", "fedavg:epochs=1,rate=0.1"] {
        let mut client = client(Some(PASSPHRASE));
        let plan = planned(&mut client, "encrypted", rule);
        let outgoing = client.update(&plan, step(), [1; 32]).unwrap();
        let (ClientMessage::Update { form, samples, .. }, mut sent) = decode(&outgoing.frames) else {
            panic!("no update");
        };
        assert_eq!((form, samples), (UpdateForm::Encrypted { check: CIPHER.check() }, 3));
        let patch = layout().get("patch_embed.proj.weight").unwrap().range.clone();
        let plain = trained();
        assert!(sent[patch.clone()].iter().zip(&plain[patch]).all(|(sent, plain)| sent != plain));
        CIPHER.decrypt(&mut sent).unwrap();
        close(&sent, &trained());
    }
}

/// Compares relative to the largest value of each parameter, as the error of a matrix product scales with it.
fn close(found: &[f32], expected: &[f32]) {
    for param in &layout() {
        let (found, expected) = (&found[param.range.clone()], &expected[param.range.clone()]);
        let scale = expected.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
        let worst = found.iter().zip(expected).fold(0.0f32, |worst, (a, b)| worst.max((a - b).abs()));
        assert!(worst <= 1e-5 * scale, "{}: off by {worst} of {scale}", param.name);
    }
}

#[test]
fn without_a_passphrase_it_asks() {
    for (frames, round, policy) in [(plan_frames("encrypted", "fedsgd"), 4, 2), (seal_frames(&global()), 0, 9)] {
        let mut client = client(None);
        let Some(Action::AskPassphrase { frames: answer, reason, wrong: false }) = receive(&mut client, &frames) else {
            panic!("it does not ask");
        };
        assert!(reason.contains("type the room's passphrase"), "{reason}");
        let (ClientMessage::Unable { round: r, policy: p, is_locked: true, .. }, values) = decode(&answer) else {
            panic!("no answer")
        };
        assert_eq!((r, p, values.len()), (round, policy, 0));
        client.set_passphrase(Some(PASSPHRASE.into()));
        assert!(!matches!(receive(&mut client, &frames), Some(Action::AskPassphrase { .. })));
    }
}

#[test]
fn plain_start_seals_the_relays_model() {
    let mut client = client(Some(PASSPHRASE));
    let Some(Action::Seal(task)) = receive(&mut client, &seal_frames(&global())) else { panic!("no task") };
    let (ClientMessage::Sealed { policy: 9, check }, mut sealed) = decode(&client.seal(*task, 1).unwrap()) else {
        panic!("not sealed");
    };
    assert_eq!(check, CIPHER.check());
    CIPHER.decrypt(&mut sealed).unwrap();
    close(&sealed, &global());
}

/// Under a keyed start, the relay gets a different value for every weight that the scheme encrypts.
#[test]
fn keyed_start_shows_no_plain_embedding() {
    let mut client = client(Some(PASSPHRASE));
    let Some(Action::Seal(task)) = receive(&mut client, &seal_frames(&[])) else { panic!("no task") };
    assert_eq!(task.weights, None);
    let frames = client.seal((*task).clone(), 5).unwrap();
    let (ClientMessage::Sealed { .. }, mut sealed) = decode(&frames) else { panic!("not sealed") };
    let plain = architecture().initial(5).weights;
    let patch = layout().get("patch_embed.proj.weight").unwrap().range.clone();
    let drawn: std::collections::HashSet<u32> = plain[patch.clone()].iter().map(|value| value.to_bits()).collect();
    // Two numbers of the same size may agree by chance.
    let same = sealed[patch.clone()].iter().filter(|value| drawn.contains(&value.to_bits())).count();
    assert!(100 * same < patch.len(), "{same} of {} values are in the plain", patch.len());
    // The rows of the position embedding change places; a random order of S rows keeps one in place on average.
    let position = layout().get("pos_embed").unwrap().clone();
    let dim = architecture().vit().unwrap().dim;
    let rows = |flat: &[f32]| -> Vec<Vec<f32>> {
        flat[position.range.clone()].chunks(dim).skip(1).map(<[f32]>::to_vec).collect()
    };
    let moved = rows(&plain).iter().zip(rows(&sealed)).filter(|(plain, sealed)| *plain != sealed).count();
    assert!(moved + 5 >= architecture().vit().unwrap().patches(), "{moved} rows moved");
    let key = RoomKey::derive(PASSPHRASE, &SALT, EncryptionStart::Keyed).unwrap();
    Cipher::new(&key, &layout()).unwrap().decrypt(&mut sealed).unwrap();
    close(&sealed, &plain);
    // Another draw gives another model.
    assert_ne!(client.seal(*task, 6).unwrap(), frames);
}

#[test]
fn seal_of_another_model_is_answered() {
    let mut client = client(Some(PASSPHRASE));
    let Some(Action::Send(frames)) = receive(&mut client, &seal_frames(&[0.0; 3])) else { panic!("no answer") };
    let (ClientMessage::Unable { round: 0, policy: 9, reason, is_locked: false }, _) = decode(&frames) else {
        panic!("other answer")
    };
    assert!(reason.contains("the relay sent 3 weights"), "{reason}");
}

/// Checks every byte that a client of an encrypted room ever sends.
#[test]
fn no_piece_of_the_passphrase_leaves() {
    let mut out = Vec::new();
    for passphrase in [PASSPHRASE, "violet otter 1868"] {
        let mut client = client(Some(passphrase));
        out.extend(client.hello([1; 32]).unwrap());
        out.extend(client.device("WebGPU").unwrap());
        out.extend(client.score(4, AttackMethod::April, 20.0, 0.5).unwrap());
        for rule in ["fedsgd", "fedavg:epochs=1,rate=0.1"] {
            match receive(&mut client, &plan_frames("encrypted", rule)).unwrap() {
                Action::Train(plan) => out.extend(client.update(&plan, step(), [1; 32]).unwrap().frames),
                Action::AskPassphrase { frames, reason, wrong } => {
                    assert!(wrong && passphrase != PASSPHRASE);
                    assert!(!reason.contains(passphrase));
                    out.extend(frames);
                }
                other => panic!("{other:?} instead of training or a question"),
            }
        }
        for weights in [Vec::new(), global()] {
            let Some(Action::Seal(task)) = receive(&mut client, &seal_frames(&weights)) else { panic!("no task") };
            out.extend(client.seal(*task, 1).unwrap());
        }
        for window in passphrase.as_bytes().windows(8) {
            assert!(out.iter().all(|frame| frame.windows(8).all(|bytes| bytes != window)));
        }
        assert!(!format!("{client:?}").contains("otter"));
    }
    assert!(out.len() > 10);
}

/// Anybody who knows the noise's seed can remove the noise.
#[test]
fn seed_of_the_noise_stays() {
    let mut client = client(None);
    let seed: [u8; 32] = std::array::from_fn(|i| 100 + i as u8);
    let plan = planned(&mut client, "gaussian:eps=4,delta=1e-5,clip=0.5", "fedsgd");
    let outgoing = client.update(&plan, step(), seed).unwrap();
    assert!(matches!(decode(&outgoing.frames).0, ClientMessage::Update { form: UpdateForm::Dense, .. }));
    for window in seed.windows(4) {
        assert!(outgoing.frames.iter().all(|frame| frame.windows(4).all(|bytes| bytes != window)));
    }
    assert!(outgoing.groups.iter().all(|group| group.noise.is_some()));
}

#[test]
fn what_does_not_fit_stays() {
    let mut client = client(Some(PASSPHRASE));
    for defence in ["none", "random-binary:0.5", "encrypted"] {
        let plan = planned(&mut client, defence, "fedsgd");
        let short = LocalUpdate { loss: 1.0, values: vec![1.0; 3], statistics: Vec::new(), samples: 1 };
        let error = client.update(&plan, short, [1; 32]).unwrap_err().to_string();
        assert!(error.contains("has 3 values"), "{error}");
    }
    let mut plan = planned(&mut client, "encrypted", "fedsgd");
    plan.cipher = None;
    let error = client.update(&plan, step(), [1; 32]).unwrap_err();
    assert_eq!(error, UpdateFailure::Protect(ProtectError::NoKey));
}

/// What this client commits to in its next hello.
fn commits(client: &mut Client, fresh: u8) -> [u8; 32] {
    match decode(&client.hello([fresh; 32]).unwrap()).0 {
        ClientMessage::Hello { commitment, .. } => commitment,
        other => panic!("{other:?} instead of a hello"),
    }
}

/// The seed of each mask follows from a nonce that the client had committed to before it saw the relay's.
#[test]
fn a_mask_s_seed_is_drawn_with_the_relay() {
    let mut client = Client::new("Ada", "CPU");
    assert!(matches!(client.receive(&plan_frames("none", "fedsgd")[0]), Err(ClientError::NoHello)));
    let first = commits(&mut client, 1);
    assert_eq!(commits(&mut client, 2), first, "a round may still wait for that one");
    let (mut expected, mut told) = (first, Vec::new());
    for fresh in 3..6 {
        let plan = planned(&mut client, "random-binary:0.5", "fedsgd");
        let late = planned(&mut client, "random-binary:0.5", "fedsgd");
        for plan in [plan, late] {
            let sent = client.update(&plan, step(), [fresh; 32]).unwrap().frames;
            let ClientMessage::Update { form: UpdateForm::Masked { seed, .. }, draw: Some(draw), .. } = decode(&sent).0
            else {
                panic!("no mask")
            };
            assert_eq!(commitment(&draw.nonce), expected);
            assert_eq!(seed, drawn_seed(&draw.nonce, &[9; 16]));
            told.push(draw.next);
        }
        expected = *told.last().unwrap();
    }
    assert_eq!(commits(&mut client, 9), expected);
}

/// The commitment changes with a mask that may get lost on its way.
#[test]
fn a_page_is_known_by_every_hello_until_it_is_loaded_again() {
    let page = |client: &mut Client, fresh: u8| match decode(&client.hello([fresh; 32]).unwrap()).0 {
        ClientMessage::Hello { page, commitment, .. } => (page, commitment),
        other => panic!("{other:?} instead of a hello"),
    };
    let mut client = Client::new("Ada", "CPU");
    let first = page(&mut client, 1);
    let plan = planned(&mut client, "random-binary:0.5", "fedsgd");
    client.update(&plan, step(), [2; 32]).unwrap();
    let again = page(&mut client, 3);
    assert!(again.0 == first.0 && again.1 != first.1);
    assert_ne!(page(&mut Client::new("Ada", "CPU"), 4).0, first.0);
}

#[test]
fn frozen_mask_is_the_rooms() {
    let mut client = client(None);
    let plan = planned(&mut client, "frozen-binary:0.5", "fedsgd");
    let mut sent = |seed| decode(&client.update(&plan, step(), [seed; 32]).unwrap().frames);
    assert_eq!(sent(1), sent(2));
    let ClientMessage::Update { form: UpdateForm::Masked { seed, .. }, .. } = sent(1).0 else { panic!("no mask") };
    assert_eq!(seed, FROZEN_SEED);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The upload of a masked update has at most 1.01 times the 4 (1 - R_g) bytes of each value plus 4096 bytes, and
    /// contains no dropped value, for gradients and for weights.
    #[test]
    fn masked_update_is_small_and_holds_no_dropped_value(
        own in any::<[u8; 32]>(),
        percents in any::<[u8; 7]>(),
        averaged in any::<bool>(),
    ) {
        let percents = percents.map(|percent| f64::from(percent % 100) / 100.0);
        let named: Vec<String> =
            ParamGroup::ALL.iter().zip(percents).map(|(group, rate)| format!("{}={rate}", group.key())).collect();
        let defence = format!("random-binary:{}", named.join(","));
        let mut client = client(None);
        let mut plan = planned(&mut client, &defence, if averaged { "fedavg" } else { "fedsgd" });
        plan.nonces.own = own;
        let seed = drawn_seed(&own, &plan.nonces.relay);
        let outgoing = client.update(&plan, step(), [2; 32]).unwrap();
        let kept = |param: &unmask_core::Param| (1.0 - percents[param.group as usize]) * param.range.len() as f64;
        let limit = 1.01 * 4.0 * plan.layout.iter().map(kept).sum::<f64>() + 4096.0;
        prop_assert!(outgoing.bytes as f64 <= limit, "{} bytes, limit {limit}", outgoing.bytes);
        prop_assert_eq!(outgoing.bytes, outgoing.frames.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(outgoing.plain_bytes, 4 * plan.layout.len());
        let (ClientMessage::Update { form, .. }, sent) = decode(&outgoing.frames) else { panic!("no update") };
        let UpdateForm::Masked { seed: told, rates } = form else { panic!("{form:?} instead of a mask") };
        prop_assert_eq!(told, seed);
        prop_assert_eq!(Defence::RandomBinary { rates }, plan.defence);
        let mask = Mask::new(seed, &rates, &plan.layout).entries();
        let kept = trained().into_iter().zip(mask).filter_map(|(value, kept)| kept.then_some(value));
        prop_assert_eq!(sent, kept.collect::<Vec<f32>>());
    }
}

proptest! {
    // Each case hashes a passphrase.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn wrong_passphrase_sends_nothing_but_a_refusal(passphrase in "[a-z0-9 é]{1,24}", averaged in any::<bool>()) {
        prop_assume!(passphrase.trim() != PASSPHRASE && !passphrase.trim().is_empty());
        let mut client = client(Some(&passphrase));
        let frames = plan_frames("encrypted", if averaged { "fedavg" } else { "fedsgd" });
        // The second time the key is cached, and still wrong.
        for _ in 0..2 {
            match receive(&mut client, &frames) {
                Some(Action::AskPassphrase { frames, wrong: true, .. }) => {
                    let (message, values) = decode(&frames);
                    let refuses = matches!(message, ClientMessage::Unable { round: 4, policy: 2, .. });
                    prop_assert!(refuses && values.is_empty());
                }
                other => prop_assert!(false, "{:?} instead of a question", other),
            }
        }
    }
}

const CLASSES: [&str; 3] = ["ring", "cross", "spiral"];

/// Ten pictures of one pixel, the first five of class 0.
fn shard_header(number: u32) -> ShardHeader {
    let classes = CLASSES.map(str::to_owned).to_vec();
    let (data, partition) = ("Shapes".to_owned(), Partition::Iid);
    ShardHeader { number, data, partition, index: 2, shards: 8, classes, side: 1, pictures: 10 }
}

fn shard_frames(number: u32) -> Vec<Vec<u8>> {
    let header = shard_header(number);
    let pixels: Vec<u8> = (0..30).collect();
    let words = header.words(&[0, 0, 0, 0, 0, 1, 1, 1, 2, 2], &pixels).unwrap();
    frames(&RelayMessage::Shard(header), &words).unwrap()
}

fn shared_plan(number: u32, rule: &str, classes: u16) -> Vec<Vec<u8>> {
    let mut header = plan_header(MODEL, "none", rule, None);
    let RelayMessage::Plan(plan) = &mut header else { panic!("no plan") };
    (plan.pictures, plan.batch) = (TrainingPictures::Shared { shard: number }, 4);
    plan.model.classes = classes;
    let architecture = architecture().with_classes(classes.into());
    frames(&header, &vec![0.1; architecture.layout().len()]).unwrap()
}

#[test]
fn shared_plan_takes_its_pictures_from_the_shard() {
    let mut client = client(None);
    let Some(Action::Report(ClientEvent::Shard(shard))) = receive(&mut client, &shard_frames(6)) else {
        panic!("no shard")
    };
    assert_eq!((shard.number(), shard.data(), shard.place(), shard.len()), (6, "Shapes", (2, 8), 10));
    assert_eq!(client.shard(), Some(&shard));
    for (rule, taken) in [("fedsgd", 4), ("fedavg:epochs=1,rate=0.1", 10)] {
        let Some(Action::Train(plan)) = receive(&mut client, &shared_plan(6, rule, 10)) else { panic!("no plan") };
        let PictureSelection::Shared { shard: from, positions } = &plan.pictures else { panic!("private pictures") };
        assert!(Arc::ptr_eq(from, &shard) && positions.len() == taken, "{positions:?}");
        assert!(positions.iter().all(|&position| shard.rgb(position).is_some()));
    }
    // The shard outlives the socket.
    client.hello([1; 32]).unwrap();
    assert!(matches!(receive(&mut client, &shared_plan(6, "fedsgd", 10)), Some(Action::Train(_))));
    let plan = planned(&mut client, "none", "fedsgd");
    assert_eq!(plan.pictures, PictureSelection::Private);
    assert!(plan.check_label(9).is_ok() && plan.check_label(10).unwrap_err().contains("the classes 0 to 9"));
}

#[test]
fn plan_for_another_shard_is_answered() {
    let mut client = client(None);
    receive(&mut client, &shard_frames(6));
    for (number, classes, reason) in [(7, 10, "have not come"), (6, 2, "3 classes, and the room's model has 2")] {
        let Some(Action::Send(frames)) = receive(&mut client, &shared_plan(number, "fedsgd", classes)) else {
            panic!("no answer");
        };
        let (ClientMessage::Unable { reason: text, .. }, _) = decode(&frames) else { panic!("another answer") };
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn shard_that_is_none_ends_the_connection_and_loses_nothing() {
    let mut client = client(None);
    receive(&mut client, &shard_frames(6));
    let short = frames(&RelayMessage::Shard(shard_header(7)), &[0.0; 3]).unwrap();
    let error = client.receive(&short[0]).unwrap_err();
    assert!(error.to_string().contains("came with 12 bytes instead of 40"), "{error}");
    assert_eq!(client.shard().unwrap().number(), 6);
}
