//! Rounds over real sockets.

use crate::support::{RATE, Relay, gradient, layout, state, view};
use unmask_core::{GroupRates, MaskSeed, ZeroRate};
use unmask_defence::Mask;
use unmask_wire::{
    RelayMessage,
    view::{ClientState, Control, Phase},
};

/// With two masked clients, the second plan agrees with Eq. 2, computed in f64 with explicit masks.
#[tokio::test]
async fn two_masked_rounds_agree_with_equation_2() {
    let relay = Relay::with(|config| config.room.defence = "random-binary:0.5".parse().unwrap()).await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    assert_eq!(relay.room().await.phase, Phase::Paused);
    relay.control(Control::Start).await;
    let (layout, rates) = (layout(), GroupRates::uniform(ZeroRate::new(0.5).unwrap()));
    let mut earlier: Option<(Vec<f32>, [MaskSeed; 2])> = None;
    for round in 1..=3u8 {
        let plans = [ada.plan().await, bob.plan().await];
        assert_eq!(plans[0].weights, plans[1].weights);
        assert_eq!((plans[0].round, plans[1].round), (round.into(), round.into()));
        if let Some((before, seeds)) = earlier {
            let masks: Vec<Vec<bool>> =
                seeds.iter().map(|seed| Mask::new(*seed, &rates, &layout).entries().collect()).collect();
            let gradients = [gradient(1), gradient(2)];
            for i in 0..before.len() {
                let present = masks.iter().zip(&gradients).filter(|(mask, _)| mask[i]).map(|(_, g)| f64::from(g[i]));
                let count = present.clone().count();
                let step = if count == 0 { 0.0 } else { f64::from(RATE) * present.sum::<f64>() / count as f64 };
                let expected = f64::from(before[i]) - step;
                assert!((f64::from(plans[0].weights[i]) - expected).abs() < 1e-6, "value {i} of round {round}");
            }
        }
        let seeds = [ada.seed(&plans[0]), bob.seed(&plans[1])];
        ada.update(&plans[0], gradient(1)).await;
        bob.update(&plans[1], gradient(2)).await;
        assert_eq!(ada.answer().await, RelayMessage::Accepted { round: round.into() });
        earlier = Some((plans[0].weights.clone(), seeds));
    }
    let room = relay.room_when("three rounds", |room| room.losses.len() == 3).await;
    assert_eq!(room.losses[2].updates, 2);
    assert_eq!(room.losses[2].defence.to_string(), "random-binary:0.5");
    let ada = view(&room, "Ada");
    let dense = 3 * 4 * layout.len() as u64;
    assert_eq!(ada.updates, 3);
    assert!(ada.bytes_sent > dense * 2 / 5 && ada.bytes_sent < dense * 3 / 5, "{} of {dense}", ada.bytes_sent);
}

#[tokio::test]
async fn client_that_vanishes_in_mid_upload_holds_nobody_up() {
    let relay = Relay::start().await;
    let (mut ada, mut eve) = (relay.client("Ada").await, relay.client("Eve").await);
    relay.control(Control::Start).await;
    let (plan, half) = (ada.plan().await, eve.plan().await);
    ada.update(&plan, gradient(1)).await;
    let message = unmask_wire::ClientMessage::Update {
        round: half.round,
        policy: half.policy,
        loss: 1.0,
        samples: 1,
        form: unmask_core::UpdateForm::Dense,
        draw: None,
    };
    let frame = unmask_wire::frames(&message, &vec![0.0; 100_000]).unwrap().swap_remove(0);
    eve.socket.frame(frame).await;
    drop(eve);
    assert_eq!(ada.plan().await.round, 2);
    let room = relay.room().await;
    assert_eq!(room.losses[0].updates, 1);
    assert_eq!(state(&room, "Eve"), Some(ClientState::Gone));
}
