//! The privacy account of the rounds under a noise.

use crate::support::{Client, Plan, Relay, gradient, layout};
use unmask_core::{Defence, MaskSeed};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_relay::privacy::Mechanism;
use unmask_wire::view::{Control, RoomView};

fn under(defence: &str, seed: u8) -> ProtectedUpdate {
    let defence: Defence = defence.parse().unwrap();
    let plain = PlainUpdate { values: gradient(2), reference: None };
    defence.protect(&layout(), plain, KeyMaterial { seed: MaskSeed([seed; 32]), cipher: None }).unwrap()
}

async fn choose(relay: &Relay, defence: &str) {
    relay.control(Control::Defence { defence: defence.parse().unwrap() }).await;
}

async fn one_round(relay: &Relay, client: &mut Client) -> Plan {
    relay.control(Control::OneRound).await;
    client.plan().await
}

async fn rounds(relay: &Relay, clients: &mut [Client], number: u8) -> RoomView {
    let before = relay.room().await.losses.len();
    for round in 0..number {
        relay.control(Control::OneRound).await;
        for (client, who) in clients.iter_mut().zip(1u8..) {
            let plan = client.plan().await;
            client.update(&plan, gradient(who.into())).await;
        }
        let closed = before + usize::from(round) + 1;
        relay.room_when("the round's end", |room| room.losses.len() == closed).await;
    }
    relay.room().await
}

/// The guarantee covers all consecutive rounds under one noise, even if other settings change.
#[tokio::test]
async fn guarantee_covers_the_rounds_under_this_noise() {
    let relay =
        Relay::with(|config| config.room.defence = "gaussian:eps=4,delta=0.00001,clip=0.5".parse().unwrap()).await;
    let mut clients = [relay.client("Ada").await];
    assert_eq!(relay.room().await.guarantee, None);
    let holds = |rounds| {
        let Ok(Defence::Gaussian(noise)) = "gaussian:eps=4,delta=0.00001,clip=0.5".parse() else { panic!() };
        let mechanism = Mechanism { clip: noise.clip(), deviation: noise.deviation() };
        let guarantee = unmask_relay::privacy::guarantee(mechanism, rounds, 1e-5);
        (rounds, guarantee.delta, guarantee.sentence)
    };
    let shown = |room: RoomView| {
        let guarantee = room.guarantee.unwrap();
        assert!(guarantee.epsilon.is_some_and(|epsilon| epsilon > 4.0), "{guarantee:?}");
        (guarantee.rounds, guarantee.delta, guarantee.sentence)
    };
    assert_eq!(shown(rounds(&relay, &mut clients, 2).await), holds(2));
    relay.control(Control::Batch { samples: 4 }).await;
    assert_eq!(shown(rounds(&relay, &mut clients, 1).await), holds(3));
    // No noised update was sent in this round.
    let plan = one_round(&relay, &mut clients[0]).await;
    clients[0].send_update(&plan, 1.0, under("random-binary:0.5", 1)).await;
    clients[0].refusal().await;
    assert_eq!(shown(relay.room().await), holds(3));
    // A new model trains on the same pictures, so earlier rounds still count.
    relay.control(Control::Reset).await;
    assert_eq!(shown(rounds(&relay, &mut clients, 1).await), holds(4));
    choose(&relay, "gaussian:eps=1,delta=0.5,clip=0.5").await;
    let guarantee = rounds(&relay, &mut clients, 1).await.guarantee.unwrap();
    assert_eq!(guarantee.rounds, 1);
    assert!(guarantee.sentence.starts_with("Not covered: what the relay received earlier"), "{guarantee:?}");
    assert!(guarantee.delta <= 1e-5 && guarantee.sentence.contains("would promise nothing"), "{guarantee:?}");
    choose(&relay, "none").await;
    assert_eq!(rounds(&relay, &mut clients, 1).await.guarantee, None);
    choose(&relay, "gaussian:eps=0.01,delta=1e-5,clip=0.5").await;
    let guarantee = rounds(&relay, &mut clients, 1).await.guarantee.unwrap();
    assert!(guarantee.sentence.starts_with("Not covered"), "a plain update was sent before: {guarantee:?}");
}
