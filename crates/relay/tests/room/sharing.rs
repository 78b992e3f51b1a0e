//! Shards of a data set, over real sockets.

use std::collections::BTreeSet;
use unmask_core::{Partition, TrainOn, TrainingPictures};

use crate::support::{
    Client, Relay,
    colours::{self, COLOURS, EACH},
    config, gradient, http,
};
use unmask_relay::{Running, Source, serve};
use unmask_wire::{
    PlanHeader, RelayMessage, ShardHeader,
    view::{Control, NextView},
};

fn train_on(pictures: TrainOn) -> Control {
    Control::TrainOn { pictures }
}

fn pictures((header, labels, pixels): &(ShardHeader, Vec<u8>, Vec<u8>)) -> BTreeSet<(u8, Vec<u8>)> {
    let each = 3 * usize::from(header.side) * usize::from(header.side);
    assert_eq!(pixels.len(), each * labels.len());
    labels.iter().copied().zip(pixels.chunks(each).map(<[u8]>::to_vec)).collect()
}

#[tokio::test]
async fn clients_get_their_shards_once_and_train_on_them() {
    let relay = Relay::with(|config| {
        colours::share(config);
        config.room.data.shards = 2;
        config.room.data.train_on = TrainOn::Shared;
    })
    .await;
    let (mut ada, mut bob, mut cleo) =
        (relay.client("Ada").await, relay.client("Bob").await, relay.client("Cleo").await);
    relay.control(Control::Start).await;
    let shards = [ada.shard().await, bob.shard().await, cleo.shard().await];
    let places = shards.each_ref().map(|(header, ..)| (header.number, header.index, header.shards));
    assert_eq!(places, [(1, 0, 2), (1, 1, 2), (1, 0, 2)]);
    assert_eq!(
        (shards[0].0.data.as_str(), shards[0].0.classes.as_slice()),
        ("colours", &COLOURS.map(str::to_owned)[..])
    );
    let [ada_has, bob_has, cleo_has] = shards.each_ref().map(pictures);
    assert_eq!(ada_has, cleo_has);
    assert!(ada_has.is_disjoint(&bob_has));
    let to_train_on = 3 * EACH * 4 / 5;
    assert_eq!(ada_has.len() + bob_has.len(), to_train_on);
    for (label, rgb) in ada_has.iter().chain(&bob_has) {
        // Labels follow the folders in order of name: blue, green, red.
        let brightest = (0..3).max_by_key(|&channel| rgb[channel]).unwrap();
        assert_eq!(2 - brightest, usize::from(*label));
    }

    let plan = ada.plan().await;
    assert_eq!((plan.round, plan.pictures), (1, TrainingPictures::Shared { shard: 1 }));
    let data = relay.room().await.data.unwrap();
    assert!(data.is_ready && data.train_on == TrainOn::Shared && data.partition == Partition::Iid);
    assert_eq!((data.pictures as usize, data.held_out as usize), (to_train_on, 3 * EACH - to_train_on));
    let mut counts = vec![0; 3];
    ada_has.iter().for_each(|(label, _)| counts[usize::from(*label)] += 1);
    assert_eq!(data.shards[0], counts);
    for client in [&mut bob, &mut cleo] {
        let plan = client.plan().await;
        client.update(&plan, gradient(2)).await;
    }
    ada.update(&plan, gradient(1)).await;
    loop {
        match ada.socket.message().await.unwrap().0 {
            RelayMessage::Plan(PlanHeader { round: 2, pictures: TrainingPictures::Shared { shard: 1 }, .. }) => break,
            message => assert!(!matches!(message, RelayMessage::Shard(_)), "{message:?}"),
        }
    }
}

/// Source and partition change only between rounds, together with the policy, so that no average mixes two.
#[tokio::test]
async fn other_pictures_come_with_the_next_round() {
    let relay = Relay::with(|config| {
        colours::share(config);
        (config.room.data.shards, config.room.data.shard_pictures) = (3, 5);
    })
    .await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let private = ada.plan().await;
    assert_eq!((private.policy, private.pictures), (1, TrainingPictures::Private));

    relay.control(train_on(TrainOn::Shared)).await;
    let room = relay.room().await;
    let next =
        NextView { train_on: Some(TrainOn::Shared), partition: Some("iid".parse().unwrap()), ..NextView::default() };
    assert_eq!(room.data.unwrap().train_on, TrainOn::Private);
    assert_eq!(room.next.unwrap().train_on, next.train_on);
    ada.update(&private, gradient(1)).await;
    let first = ada.shard().await;
    assert_eq!(first.1.len(), 5);
    let shared = ada.plan().await;
    assert_eq!((shared.round, shared.policy, shared.pictures), (2, 2, TrainingPictures::Shared { shard: 1 }));

    relay.control(Control::Partition { partition: "dirichlet:0.1".parse().unwrap() }).await;
    let next = NextView { partition: Some("dirichlet:0.1".parse().unwrap()), ..NextView::default() };
    assert_eq!(relay.room().await.next, Some(next));
    // A client that returns during the round gets the same shard and the round's plan again.
    drop(ada);
    let mut ada = {
        let back = relay.client("Ada").await;
        assert_eq!(back.id.0, 2, "a new client, since the old one's ticket was lost");
        back
    };
    let (second, plan) = (ada.shard().await, ada.plan().await);
    assert_eq!(
        (second.0.number, second.0.partition.to_string().as_str(), plan.pictures),
        (2, "dirichlet:0.1", TrainingPictures::Shared { shard: 2 })
    );
    assert_eq!(relay.room().await.data.unwrap().partition.to_string(), "dirichlet:0.1");
    let stale = {
        let mut plan = plan.clone();
        plan.header.policy -= 1;
        plan
    };
    ada.update(&stale, gradient(1)).await;
    relay.log_line("it is not mixed in").await;

    relay.control(train_on(TrainOn::Private)).await;
    ada.update(&plan, gradient(1)).await;
    let plan = ada.plan().await;
    assert_eq!(plan.pictures, TrainingPictures::Private);
    assert_eq!(relay.room().await.data.unwrap().train_on, TrainOn::Private);
}

#[tokio::test]
async fn who_comes_back_in_mid_round_gets_shard_and_plan_again() {
    let relay = Relay::with(|config| {
        colours::share(config);
        config.room.data.train_on = TrainOn::Shared;
    })
    .await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let (shard, plan) = (ada.shard().await, ada.plan().await);
    // The old socket is still open, as after a page reload.
    let mut again = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    assert_eq!(again.shard().await, shard);
    assert_eq!(again.plan().await.weights, plan.weights);
}

/// By default, pictures are generated when the first round needs them.
#[tokio::test]
async fn generated_pictures_are_made_on_demand() {
    let relay = Relay::start().await;
    let data = relay.room().await.data.unwrap();
    assert_eq!((data.source.as_str(), data.is_ready, data.shards.len()), ("generated", false, 0));
    relay.control(Control::Partition { partition: "dirichlet:1".parse().unwrap() }).await;
    let mut ada = relay.client("Ada").await;
    relay.control(train_on(TrainOn::Shared)).await;
    relay.control(Control::Start).await;
    let (header, labels, _) = ada.shard().await;
    assert_eq!((header.data.as_str(), header.partition.to_string().as_str()), ("generated shapes", "dirichlet:1"));
    assert_eq!((header.classes.len(), labels.len(), header.side), (10, 200, 32));
    let data = relay.room().await.data.unwrap();
    assert!(data.is_ready && data.shards.len() == 10 && data.pictures == 10_000, "{data:?}");
}

/// The head has at least as many classes as the data set and as the private pictures.
#[tokio::test]
async fn model_has_the_classes_of_the_data_set() {
    for (folders, classes) in [(12, 12), (3, 10)] {
        let relay = Relay::with(|config| {
            let folder = config.data_dir.join("many");
            colours::write(&folder);
            for extra in 3..folders {
                let from = folder.join("red");
                let to = folder.join(format!("red {extra}"));
                std::fs::create_dir(&to).unwrap();
                for file in std::fs::read_dir(from).unwrap() {
                    let file = file.unwrap();
                    std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
                }
            }
            config.room.data.source = Source::Folder(folder);
        })
        .await;
        let mut ada = relay.client("Ada").await;
        relay.control(Control::Start).await;
        let plan = ada.plan().await;
        assert_eq!((plan.model.classes, plan.pictures), (classes, TrainingPictures::Private));
        // The update is accepted, since the relay's limits account for the larger head.
        let update = unmask_defence::ProtectedUpdate::dense(vec![0.0; plan.weights.len()]);
        ada.send_update(&plan, 1.0, update).await;
        assert_eq!(ada.answer().await, RelayMessage::Accepted { round: 1 });
    }
}

#[tokio::test]
async fn what_cannot_be_shared_out_ends_the_start() {
    let error = async |change: &dyn Fn(&mut unmask_relay::RelayConfig)| {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path().to_path_buf());
        change(&mut config);
        let outcome: anyhow::Result<Running> = serve(config).await;
        format!("{:#}", outcome.expect_err("it started"))
    };
    let missing = error(&|config| config.room.data.source = Source::Folder("no/such/folder".into())).await;
    assert!(missing.contains("folder:no/such/folder cannot be shared out"), "{missing}");
    let crowded = error(&|config| {
        colours::share(config);
        (config.room.data.shards, config.room.data.train_on) = (25, TrainOn::Shared);
    })
    .await;
    assert!(crowded.contains("divided into 25 shards: 24 pictures are too few"), "{crowded}");
    let cifar = error(&|config| {
        config.room.data.source = Source::Cifar10;
        config.room.data.cifar10 = Some("no/such/folder".into());
    })
    .await;
    assert!(cifar.contains("data_batch_1.bin"), "{cifar}");
}

/// If the pictures cannot be partitioned as chosen, the previous choice stays.
#[tokio::test]
async fn impossible_choice_changes_nothing() {
    let relay = Relay::with(|config| {
        colours::share(config);
        config.room.data.shards = 25;
    })
    .await;
    let (status, sentence) = relay.try_control(&train_on(TrainOn::Shared)).await;
    assert_eq!(status, 400);
    assert!(sentence.contains("24 pictures are too few"), "{sentence}");
    let room = relay.room().await;
    assert!(room.next.is_none() && room.data.unwrap().train_on == TrainOn::Private);
    let (status, ..) =
        http(&relay.running, "POST", "/api/control", &[], r#"{"do":"train_on","pictures":"shared"}"#).await;
    assert_eq!(status, 401);
}
