//! A client that looks at the relay's plans before it trains.

use unmask_client::{Action, Caution, Client, ClientEvent, Doubt, PrivatePicture, RoundPlan};
use unmask_core::{Architecture, OptimiserKind, VitPreset};
use unmask_data::Picture;
use unmask_model::{block_on, device::OpenDevice};
use unmask_wire::{Assembler, ClientMessage, PlanHeader, RelayMessage, ServerPlan, frames};

fn architecture() -> Architecture {
    Architecture::from(VitPreset::Pico)
}

fn weights() -> Vec<f32> {
    architecture().initial(3).weights
}

/// These weights with the named parameter filled.
fn filled(weights: &[f32], name: &str, value: f32) -> Vec<f32> {
    let mut weights = weights.to_vec();
    weights[architecture().layout().get(name).unwrap().range.clone()].fill(value);
    weights
}

fn client(caution: Caution) -> Client {
    let picture = Picture::new(16, 16, (0..16 * 16 * 3).map(|i| (i * 7 % 251) as u8).collect()).unwrap();
    let mut client = Client::new("Ada", "CPU").with_pictures(vec![PrivatePicture::new(picture, 3)]);
    client.set_caution(caution);
    client.hello([1; 32]).unwrap();
    client
}

/// A plan of a round, under a policy and a server's step of this rate, from the start with this number.
#[derive(Clone, Copy)]
struct At {
    round: u32,
    policy: u32,
    rate: f32,
    start: u64,
}

const FIRST: At = At { round: 1, policy: 1, rate: 0.1, start: 1 };

fn hear(client: &mut Client, message: &RelayMessage, values: &[f32]) -> Option<Action> {
    frames(message, values).unwrap().iter().map(|frame| client.receive(frame).unwrap()).last().unwrap()
}

fn planned(client: &mut Client, at: At, weights: &[f32]) -> Box<RoundPlan> {
    let At { round, policy, rate, start } = at;
    let header = PlanHeader {
        round,
        policy,
        model: architecture().into(),
        defence: "none".parse().unwrap(),
        rule: "fedsgd".parse().unwrap(),
        batch: 1,
        pictures: Default::default(),
        encryption: None,
        sum: None,
        nonce: [3; 16],
        least: 3,
        server: ServerPlan { optimiser: OptimiserKind::Sgd { rate }, start },
    };
    match hear(client, &RelayMessage::Plan(header), weights) {
        Some(Action::Train(plan)) => plan,
        other => panic!("{other:?} instead of a plan"),
    }
}

fn is_jump(doubts: &[Doubt]) -> bool {
    matches!(doubts, [Doubt::Jump { .. }])
}

#[test]
fn a_plan_is_compared_with_the_one_before() {
    let mut client = client(Caution::Weights);
    let moved = |by| filled(&weights(), "head.bias", by);
    assert_eq!(planned(&mut client, FIRST, &weights()).doubts, [], "a first plan");
    assert_eq!(planned(&mut client, At { round: 2, ..FIRST }, &moved(0.3)).doubts, []);
    let jumped = planned(&mut client, At { round: 3, ..FIRST }, &moved(3.0)).doubts;
    assert!(is_jump(&jumped), "{jumped:?}");
    // The honest model goes on, and is compared with the plan before the doubt.
    assert_eq!(planned(&mut client, At { round: 4, ..FIRST }, &moved(0.5)).doubts, []);
    // Three rounds may move it three times as far.
    assert_eq!(planned(&mut client, At { round: 7, ..FIRST }, &moved(1.5)).doubts, []);
    // The same plan again, after a lost socket.
    assert_eq!(planned(&mut client, At { round: 7, ..FIRST }, &moved(1.5)).doubts, []);
    assert!(is_jump(&planned(&mut client, At { round: 7, ..FIRST }, &moved(2.0)).doubts), "no step in between");
}

#[test]
fn a_step_is_judged_by_the_settings_that_made_it() {
    let mut client = client(Caution::Weights);
    let moved = |by| filled(&weights(), "head.bias", by);
    planned(&mut client, FIRST, &weights());
    // The step was made at the rate of 0.1, whatever the next one has, and the other way round.
    let faster = At { round: 2, policy: 2, rate: 10.0, ..FIRST };
    assert!(is_jump(&planned(&mut client, faster, &moved(3.0)).doubts));
    assert_eq!(planned(&mut client, faster, &moved(0.3)).doubts, []);
    assert_eq!(planned(&mut client, At { round: 3, policy: 3, ..FIRST }, &moved(30.0)).doubts, []);
    // Unknown settings were in force in between.
    assert_eq!(planned(&mut client, At { round: 5, policy: 5, ..FIRST }, &moved(10.0)).doubts, []);
}

#[test]
fn a_new_start_is_looked_at_by_itself() {
    let mut client = client(Caution::Weights);
    let slow = At { rate: 0.001, ..FIRST };
    planned(&mut client, slow, &weights());
    let others = architecture().initial(4).weights;
    assert_ne!(planned(&mut client, At { round: 2, ..slow }, &others).doubts, []);
    assert_eq!(planned(&mut client, At { round: 2, start: 2, ..slow }, &others).doubts, []);
    let sure = filled(&weights(), "head.weight", 0.0);
    assert_eq!(planned(&mut client, At { start: 3, ..FIRST }, &sure).doubts, [Doubt::ZeroHead]);
    // Who does not look finds nothing.
    client.set_caution(Caution::Off);
    assert_eq!(planned(&mut client, FIRST, &sure).doubts, []);
}

#[test]
fn pictures_that_teach_nothing_are_found_only_by_who_looks_at_them() {
    let device = OpenDevice::cpu();
    let sure = filled(&weights(), "head.weight", 0.0);
    for (caution, found) in [(Caution::Weights, 1), (Caution::Pictures, 2), (Caution::Refuse, 2)] {
        let mut client = client(caution);
        let plan = planned(&mut client, FIRST, &sure);
        let pictures = client.pictures(&plan).unwrap();
        let doubts = block_on(plan.examine(&pictures, device.device(), caution)).unwrap();
        assert_eq!(doubts.len(), found, "{caution:?}: {doubts:?}");
        let honest = planned(&mut client, FIRST, &weights());
        assert_eq!(block_on(honest.examine(&pictures, device.device(), caution)).unwrap(), []);
    }
}

/// Who refuses is left out after two rounds, and asks to come back by itself, since the next plan may be honest.
#[test]
fn a_refusal_says_why_and_the_client_comes_back() {
    let mut client = client(Caution::Refuse);
    let plan = planned(&mut client, FIRST, &filled(&weights(), "head.weight", 0.0));
    let mut assembler = Assembler::new(1 << 16);
    let mut said = |frames: Vec<Vec<u8>>| frames.iter().find_map(|frame| assembler.push(frame).unwrap()).unwrap().0;
    let refusal = client.refuse(&plan, &plan.doubts).unwrap();
    match said(refusal) {
        ClientMessage::Doubtful { round: 1, policy: 1, reason } => {
            assert!(reason.starts_with("the plan looks doctored: the head is all zero"), "{reason}");
        }
        other => panic!("{other:?} instead of a refusal"),
    }
    match hear(&mut client, &RelayMessage::SittingOut, &[]) {
        Some(Action::Send(frames)) => assert_eq!(said(frames), ClientMessage::Return),
        other => panic!("{other:?} instead of a way back"),
    }
    let honest = planned(&mut client, At { round: 2, ..FIRST }, &weights());
    let pictures = client.pictures(&honest).unwrap();
    let trained = block_on(honest.train(&pictures, OpenDevice::cpu().device())).unwrap();
    client.update(&honest, trained, [5; 32]).unwrap();
    // Now it is left out for another reason.
    assert!(matches!(hear(&mut client, &RelayMessage::SittingOut, &[]), Some(Action::Report(ClientEvent::SittingOut))));
}
