//! What the relay makes of the update of the client under attack.

mod support;

use support::{Client, Plan, Relay, gradient, http_bytes, layout};
use unmask_params::{ModelSpec, Preset, VitConfig};
use unmask_wire::{ClientMessage, RelayMessage, view::Control};

fn pixel(x: usize, y: usize, channel: usize) -> f32 {
    ((x * 5 + y * 11 + channel * 29) % 64) as f32 / 63.0
}

/// A gradient whose patch embedding part is G_pos^T X for the picture of [`pixel`], as backpropagation would give it.
fn revealing_gradient() -> Vec<f32> {
    let config = ModelSpec::new(Preset::VitPicoPatch4_16).config();
    let (layout, mut flat) = (layout(), gradient(3));
    let (dim, size) = (config.dim, config.patch);
    let range = |name: &str| layout.get(name).unwrap().range.clone();
    // Nearly orthogonal rows, so that f32 is enough.
    let position = range("pos_embed");
    for (i, value) in flat[position.clone()].iter_mut().enumerate() {
        let (token, d) = (i / dim, i % dim);
        *value = if token > 0 && d == token { 1.0 } else { 0.01 * ((i * 37 % 19) as f32 / 19.0) };
    }
    let weight = range("patch_embed.proj.weight").start;
    for d in 0..dim {
        for l in 0..config.patch_len() {
            let (channel, y, x) = (l / (size * size), l / size % size, l % size);
            flat[weight + d * config.patch_len() + l] = (0..config.patches())
                .map(|s| {
                    let (top, left) = (s / config.grid() * size, s % config.grid() * size);
                    flat[position.start + (s + 1) * dim + d] * (2.0 * pixel(left + x, top + y, channel) - 1.0)
                })
                .sum();
        }
    }
    flat
}

async fn reconstruction(client: &mut Client) -> (u32, String, usize, Vec<f32>) {
    loop {
        if let Some((RelayMessage::Reconstruction { round, attack, side }, values)) = client.socket.message().await {
            return (round, attack, side.into(), values);
        }
    }
}

async fn round(relay: &Relay, ada: &mut Client, bob: &mut Client, number: u8) -> Plan {
    relay.control(Control::OneRound).await;
    let (plan, other) = (ada.plan().await, bob.plan().await);
    ada.update(&plan, revealing_gradient(), [number; 32]).await;
    bob.update(&other, gradient(4), [100 + number; 32]).await;
    plan
}

#[tokio::test]
async fn picture_is_recovered_scored_and_then_hidden() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    round(&relay, &mut ada, &mut bob, 1).await;
    let (of_round, attack, side, values) = reconstruction(&mut ada).await;
    assert_eq!((of_round, attack.as_str(), side), (1, "embedding", 16));
    for (i, value) in values.iter().enumerate() {
        let (x, y, channel) = (i / VitConfig::CHANNELS % 16, i / VitConfig::CHANNELS / 16, i % VitConfig::CHANNELS);
        assert!((value - pixel(x, y, channel)).abs() < 1e-3, "pixel {x} {y} {channel}: {value}");
    }
    let room = relay.room_when("both results", |room| room.attacks.len() == 2).await;
    let [embedding, april] = &room.attacks[..] else { panic!("{:?}", room.attacks) };
    assert_eq!((embedding.attack.as_str(), embedding.nickname.as_str(), embedding.round), ("embedding", "Ada", 1));
    assert!(embedding.seconds > 0.0 && !embedding.sentence.is_empty());
    assert!(april.remark.as_deref().is_some_and(|remark| remark.contains("normalises")), "{april:?}");
    let picture = embedding.picture.clone().unwrap();
    let (status, head, png) = http_bytes(&relay.running, "GET", &picture, &[], "").await;
    assert_eq!((status, &png[1..4]), (200, &b"PNG"[..]));
    assert!(head.contains("content-type: image/png"));
    let (status, ..) = http_bytes(&relay.running, "GET", "/api/reconstruction/embedding/99-1.png", &[], "").await;
    assert_eq!(status, 404);

    let score = |round, ssim| ClientMessage::Score { round, attack: "embedding".into(), psnr: 60.0, ssim };
    bob.socket.send(&score(1, 0.99), &[]).await;
    assert!(bob.refusal().await.contains("not under attack"));
    ada.socket.send(&score(1, 1.5), &[]).await;
    assert!(ada.refusal().await.contains("1.5"));
    ada.socket.send(&score(1, 0.99), &[]).await;
    let room = relay.room_when("the score", |room| room.attacks[0].ssim.is_some()).await;
    assert_eq!((room.attacks[0].psnr, room.attacks[0].ssim), (Some(60.0), Some(0.99)));

    relay.control(Control::Defence { defence: "fixed-position".into() }).await;
    round(&relay, &mut ada, &mut bob, 2).await;
    let room = relay.room_when("round 2", |room| room.attacks.iter().all(|attack| attack.round == 2)).await;
    for attack in &room.attacks {
        assert_eq!((attack.defence.as_str(), &attack.picture, attack.ssim), ("fixed-position", &None, None));
        assert!(attack.remark.as_deref().is_some_and(|remark| remark.contains("position embedding")), "{attack:?}");
    }

    relay.control(Control::Defence { defence: "random-binary:0.5".into() }).await;
    round(&relay, &mut ada, &mut bob, 3).await;
    let (.., masked) = reconstruction(&mut ada).await;
    let error = |values: &[f32]| {
        let difference = values.iter().enumerate().map(|(i, value)| {
            let (x, y, channel) = (i / 3 % 16, i / 3 / 16, i % 3);
            f64::from((value - pixel(x, y, channel)).abs())
        });
        difference.sum::<f64>() / values.len() as f64
    };
    assert!(error(&values) < 1e-3 && error(&masked) > 0.1, "{} {}", error(&values), error(&masked));
    let room = relay.room_when("round 3", |room| room.attacks.iter().all(|attack| attack.round == 3)).await;
    let naive = |remark: &str| remark.contains("takes dropped values for zeros");
    assert!(room.attacks.iter().all(|attack| attack.remark.as_deref().is_some_and(naive)), "{:?}", room.attacks);

    // Under FedAvg weights go up, and what they moved by gives the picture away as well.
    relay.control(Control::Defence { defence: "none".into() }).await;
    relay.control(Control::Rule { rule: "fedavg:epochs=1,rate=0.1".into() }).await;
    relay.control(Control::OneRound).await;
    let (plan, other) = (ada.plan().await, bob.plan().await);
    let step = |weights: &[f32]| weights.iter().zip(revealing_gradient()).map(|(w, g)| w - 0.1 * g).collect();
    ada.update(&plan, step(&plan.weights), [0; 32]).await;
    bob.update(&other, other.weights.clone(), [0; 32]).await;
    let (of_round, .., averaged) = reconstruction(&mut ada).await;
    assert_eq!(of_round, 4);
    assert!(error(&averaged) < 1e-2, "{}", error(&averaged));
    let room = relay.room_when("round 4", |room| room.attacks.iter().all(|attack| attack.round == 4)).await;
    let differences = |remark: &str| remark.contains("weight differences after 1 local epoch");
    assert!(room.attacks[0].remark.as_deref().is_some_and(differences), "{:?}", room.attacks);
}
