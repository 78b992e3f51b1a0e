//! Every message between page and worker arrives unchanged, including extreme values, and its pictures are transferred
//! instead of copied.
#![cfg(target_family = "wasm")]

use std::fmt::Debug;

use js_sys::{Array, ArrayBuffer, Function, Object, Reflect};
use serde::{Serialize, de::DeserializeOwned};
use unmask_core::{AttackMethod, ClientId, Defence, Partition, Rule};
use unmask_lesson::{Poll, Question, Scene, Suspect};
use unmask_tab::{
    post::{decode, encode},
    protocol::{
        Caution, ClosedRound, Comparison, Connection, Device, DeviceChoice, Doubt, FoundDoubts, FromWorker, GroupView,
        ListedRound, LoanAttack, LoanResult, Notice, OwnAttack, OwnBatch, PICTURE_SIDE, PassphraseRequest, Prediction,
        Reconstruction, Rgba, SentUpdate, ShardView, ToWorker, Training,
    },
};
use unmask_wire::{LessonState, PollState};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

/// Beyond the integers that a JavaScript number holds exactly.
const LARGE: u64 = (1 << 53) + 1;

fn picture(width: u32, height: u32) -> Rgba {
    let bytes = (0..4 * width * height).map(|i| i as u8).collect();
    Rgba::new(width, height, bytes).expect("four bytes a pixel")
}

/// What `postMessage` does with a value and its list of buffers.
fn structured_clone(value: &JsValue, buffers: &Array) -> JsValue {
    let options = Object::new();
    Reflect::set(&options, &"transfer".into(), buffers).expect("an object");
    let clone = Reflect::get(&js_sys::global(), &"structuredClone".into()).expect("a current browser");
    clone.unchecked_into::<Function>().call2(&JsValue::NULL, value, &options).expect("the value can be cloned")
}

/// Sends and reads `message`, and compares the `Debug` forms, in which NaN equals NaN.
fn check<T: Serialize + DeserializeOwned + Debug>(message: &T, pictures: u32) {
    let (value, buffers) = encode(message).expect("it can be written");
    assert_eq!(buffers.length(), pictures, "{message:?}");
    let arrived = structured_clone(&value, &buffers);
    for buffer in buffers.iter() {
        assert_eq!(buffer.unchecked_into::<ArrayBuffer>().byte_length(), 0, "a picture was copied");
    }
    let read: T = decode(arrived).expect("it can be read");
    assert_eq!(format!("{read:?}"), format!("{message:?}"));
}

#[wasm_bindgen_test]
fn what_the_page_says_arrives() {
    let join = |device, may_show, passphrase: Option<&str>, ticket| ToWorker::Join {
        socket: "wss://[fe80::1]:8443/ws".to_owned(),
        nickname: "ada 🦊 \0 \u{ffff}".to_owned(),
        picture: picture(PICTURE_SIDE, PICTURE_SIDE),
        label: u8::MAX,
        device,
        may_show,
        may_lend: !may_show,
        passphrase: passphrase.map(str::to_owned),
        ticket,
    };
    check(&join(DeviceChoice::Auto, false, None, None), 1);
    check(&join(DeviceChoice::Cpu, true, Some(""), Some([0; 16])), 1);
    check(&join(DeviceChoice::WebGpu, false, Some("blue whale"), Some([u8::MAX; 16])), 1);
    check(&ToWorker::Passphrase(String::new()), 0);
    check(&ToWorker::Classify { number: u32::MAX, picture: picture(1, 1) }, 1);
    for is_so in [false, true] {
        let caution = if is_so { Caution::Refuse } else { Caution::Pictures };
        check(&ToWorker::Caution(caution), 0);
        check(&ToWorker::Consent { may_show: is_so, may_lend: !is_so }, 0);
        check(&ToWorker::Visibility { is_hidden: is_so }, 0);
    }
    for message in [
        ToWorker::Return,
        ToWorker::Check,
        ToWorker::Leave,
        ToWorker::Vote { poll: u32::MAX, answer: u16::MAX },
        ToWorker::KnowGaps { poll: u32::MAX },
        ToWorker::ShowOriginal,
        ToWorker::HideOriginal,
        ToWorker::Forget,
    ] {
        check(&message, 0);
    }
}

#[wasm_bindgen_test]
fn what_the_worker_says_arrives() {
    check(&FromWorker::Ready, 0);
    for (attack, pictures) in
        [(LoanAttack::Picture(picture(16, 16)), 1), (LoanAttack::NoWeights, 0), (LoanAttack::Failed(String::new()), 0)]
    {
        check(&FromWorker::Loan(LoanResult { poll: u32::MAX, knows_gaps: true, attack }), pictures);
    }
    check(&FromWorker::LoanEnded { poll: u32::MAX }, 0);
    check(&FromWorker::Scored { poll: u32::MAX, owner: u16::MAX, points: u8::MAX }, 0);
    check(&FromWorker::Device(Device { name: "CPU".to_owned(), reason: String::new() }), 0);
    for connection in [
        Connection::Connecting,
        Connection::Online { nickname: "ada".to_owned(), ticket: None },
        Connection::Online { nickname: String::new(), ticket: Some([7; 16]) },
        Connection::Retrying { seconds: u32::MAX },
        Connection::Closed { reason: "“gone”".to_owned() },
    ] {
        check(&FromWorker::Connection(connection), 0);
    }
    for (defence, rule, shared) in [
        ("none", "fedsgd", None),
        ("random-binary:patch=0.95,pos=0.95,0.2", "fedavg:epochs=65535,rate=0.00001", Some(0)),
        ("gaussian:eps=4,delta=1e-5,clip=0.5", "fedsgd", Some(u32::MAX)),
        ("encrypted:keyed", "fedavg", Some(1)),
    ] {
        let (defence, rule): (Defence, Rule) = (defence.parse().expect("one"), rule.parse().expect("one"));
        let model = "vit_pico_patch4_16".to_owned();
        check(
            &FromWorker::Training(Training {
                round: u32::MAX,
                model,
                defence,
                rule,
                shared,
                is_exposed: true,
                is_summed: true,
            }),
            0,
        );
    }
    for partition in [Partition::Iid, Partition::Dirichlet { alpha: Partition::MIN_ALPHA }] {
        for (contact_sheet, pictures) in [(Some(picture(384, 128)), 1), (None, 0)] {
            let (classes, counts) = (vec!["cat".to_owned(), String::new()], vec![0, u32::MAX]);
            let data = "CIFAR-10".to_owned();
            check(&FromWorker::Shard(ShardView { data, partition, classes, counts, contact_sheet }), pictures);
        }
    }
    let prediction = Prediction {
        after: u32::MAX,
        is_shared: true,
        classes: usize::MAX,
        best: vec![(0, 1.0), (usize::MAX, f32::NAN), (1, f32::MIN_POSITIVE), (2, -0.0)],
        input: Some(picture(2, 2)),
    };
    check(&FromWorker::Classified { number: 0, prediction: Ok(prediction.clone()) }, 1);
    let empty = Prediction { best: Vec::new(), input: None, ..prediction };
    check(&FromWorker::Classified { number: u32::MAX, prediction: Ok(empty) }, 0);
    check(&FromWorker::Classified { number: 1, prediction: Err("no model".to_owned()) }, 0);
    for is_wrong in [false, true] {
        check(&FromWorker::AskPassphrase(PassphraseRequest { reason: "why".to_owned(), is_wrong }), 0);
    }
    check(&FromWorker::ModelEncrypted, 0);
    check(&FromWorker::SittingOut, 0);
    let group = |noise, ciphertext, drawn: Option<Rgba>| GroupView {
        title: "patch embedding".to_owned(),
        values: usize::MAX,
        zeros: 1.0,
        norm_before: f32::MAX,
        norm_after: f32::NEG_INFINITY,
        noise,
        ciphertext,
        before: drawn.clone(),
        after: drawn,
    };
    let sent = SentUpdate {
        round: 1,
        loss: f32::NAN,
        milliseconds: f64::MAX,
        bytes: u64::MAX,
        plain_bytes: LARGE,
        samples: 0,
        rule: Rule::FedSgd,
        groups: vec![group(None, false, Some(picture(96, 48))), group(Some(f32::INFINITY), true, None)],
    };
    check(&FromWorker::Sent(sent.clone()), 2);
    check(&FromWorker::Sent(SentUpdate { groups: Vec::new(), ..sent }), 0);
    for loss in [None, Some(f32::NAN), Some(2.25)] {
        check(&FromWorker::Closed(ClosedRound { round: u32::MAX, loss, updates: 0 }), 0);
    }
    let doubts = vec![
        Doubt::Length,
        Doubt::Jump { layer: "head.weight".to_owned() },
        Doubt::Size { layer: String::new() },
        Doubt::Biases,
        Doubt::Rows,
        Doubt::ZeroHead,
        Doubt::Flat { flat: 0, pictures: u32::MAX },
    ];
    check(&FromWorker::Doubts(FoundDoubts { round: u32::MAX, doubts, is_refused: true }), 0);
    for is_in in [None, Some(false), Some(true)] {
        let (words, root) = (is_in.map(|_| "acorn zone".to_owned()), "ff".to_owned());
        check(&FromWorker::Listed(ListedRound { round: 1, words, root, updates: 3, is_in }), 0);
    }
    for attack in AttackMethod::ALL {
        check(&FromWorker::Attacked(Reconstruction { round: 1, attack, picture: None, comparison: None }), 0);
    }
    let comparison = Some(Comparison { own: Some(picture(2, 1)), is_private: true, psnr: f32::INFINITY, ssim: -1.0 });
    let reconstruction =
        Reconstruction { round: 0, attack: AttackMethod::Jigsaw, picture: Some(picture(1, 2)), comparison };
    check(&FromWorker::Attacked(reconstruction.clone()), 2);
    for reconstructions in [Vec::new(), vec![reconstruction.clone(), reconstruction.clone()]] {
        let pictures = 2 * reconstructions.len() as u32;
        let remark = reconstructions.is_empty().then(|| "noise hides it".to_owned());
        let defence = Defence::None;
        let batch = remark.clone().map(|remark| OwnBatch {
            round: 3,
            of: 2,
            certain: 1,
            found: vec![reconstruction.clone()],
            seconds: 0.5,
            remark: Some(remark),
        });
        let pictures = pictures + if batch.is_some() { 2 } else { 0 };
        let own = OwnAttack {
            round: u32::MAX,
            defence,
            milliseconds: 0.5,
            reconstructions,
            remark,
            batch_waits: batch.is_none(),
            batch,
        };
        check(&FromWorker::OwnAttack(own), pictures);
    }
    let suspect = |nickname: &str| Suspect { client: ClientId(u32::MAX), nickname: nickname.to_owned() };
    let whose = Poll { question: Question::Whose, suspects: vec![suspect("Ada"), suspect("")], correct: None };
    let rate = Poll { question: Question::Rate, suspects: Vec::new(), correct: Some(u16::MAX) };
    for (poll, counts) in [(whose, Vec::new()), (rate, vec![0, u32::MAX])] {
        let poll = Some(PollState { number: u32::MAX, poll, is_open: counts.is_empty(), counts });
        check(
            &FromWorker::Lesson(LessonState {
                scene: Scene::TradeOff,
                beat: u8::MAX,
                poll,
                is_careful: true,
                is_doctored: true,
            }),
            0,
        );
    }
    check(&FromWorker::Lesson(LessonState::default()), 0);
    for is_so in [false, true] {
        check(&FromWorker::Original { is_shown: is_so, waits: !is_so }, 0);
        check(&FromWorker::Silent(is_so), 0);
    }
    let reason = || "out of memory".to_owned();
    for notice in [
        Notice::Encrypted,
        Notice::NotForgotten,
        Notice::NotAsked,
        Notice::Renamed { nickname: "Ada".to_owned() },
        Notice::NoUpdate { round: u32::MAX, reason: reason() },
        Notice::NotEncrypted { reason: reason() },
        Notice::NotCompared { round: 1, reason: reason() },
        Notice::NotShown { reason: reason() },
        Notice::Said("what the relay said".to_owned()),
    ] {
        check(&FromWorker::Notice(notice), 0);
    }
}

#[wasm_bindgen_test]
fn what_is_no_message_is_refused_with_a_remedy() {
    for value in [JsValue::UNDEFINED, JsValue::from_str("Dance"), JsValue::from_f64(1.0), Object::new().into()] {
        let refusal = decode::<ToWorker>(value).expect_err("no message").to_string();
        assert!(refusal.contains("reload the page"), "{refusal}");
    }
}
