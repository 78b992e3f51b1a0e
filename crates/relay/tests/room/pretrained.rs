//! Rooms that begin with pretrained weights.

use crate::support::{Client, Relay, config, gradient};
use unmask_core::{Architecture, InitialWeights, ModelState, VitPreset};
use unmask_relay::{Pretrained, RelayConfig, serve};
use unmask_wire::view::Control;

fn weights() -> Vec<f32> {
    gradient(7)
}

fn halves(config: &mut RelayConfig) {
    let architecture = Architecture::from(VitPreset::Pico);
    config.room.pretrained = Some(Pretrained {
        title: "trained on shapes".into(),
        architecture,
        state: ModelState::from_weights(weights()).into(),
    });
    config.room.initial_weights = InitialWeights::Pretrained;
}

/// Runs the first round and returns the weights it begins with.
async fn first_weights(relay: &Relay, client: &mut Client) -> Vec<f32> {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    assert_eq!(plan.round, 1);
    client.update(&plan, gradient(1)).await;
    relay.room_when("the round's end", |room| !room.losses.is_empty()).await;
    plan.weights
}

#[tokio::test]
async fn room_begins_again_as_was_chosen_last() {
    let relay = Relay::with(halves).await;
    let mut ada = relay.client("Ada").await;
    let room = relay.room().await;
    assert_eq!((room.initial_weights.name(), room.pretrained.as_deref()), ("pretrained", Some("trained on shapes")));
    assert_eq!(first_weights(&relay, &mut ada).await, weights());
    relay.control(Control::Reset).await;
    assert_eq!(first_weights(&relay, &mut ada).await, weights());
    relay.control(Control::Model { initial_weights: InitialWeights::Scratch }).await;
    assert_eq!(relay.room().await.initial_weights, InitialWeights::Scratch);
    let drawn = first_weights(&relay, &mut ada).await;
    assert_ne!(drawn, weights());
    relay.control(Control::Reset).await;
    assert_ne!(first_weights(&relay, &mut ada).await, drawn);
    relay.control(Control::Model { initial_weights: InitialWeights::Pretrained }).await;
    assert_eq!(first_weights(&relay, &mut ada).await, weights());
}

/// With the other block there are no pretrained weights, so the room says so and begins from scratch.
#[tokio::test]
async fn other_block_begins_from_scratch() {
    let relay = Relay::with(halves).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::AprilBlock { on: true }).await;
    relay.log_line("new weights from scratch: the pretrained ones are of the other block").await;
    assert_eq!(relay.room().await.pretrained, None);
    relay.control(Control::OneRound).await;
    assert!(ada.plan().await.model.april_block);
    assert_eq!(relay.room().await.initial_weights, InitialWeights::Scratch);
    let (status, sentence) = relay.try_control(&Control::Model { initial_weights: InitialWeights::Pretrained }).await;
    assert_eq!(status, 400);
    assert!(sentence.contains("pretrained weights are of vit_pico_patch4_16 and 10 classes"), "{sentence}");
}

#[tokio::test]
async fn weights_of_another_model_end_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path().to_path_buf());
    halves(&mut config);
    config.room.architecture = Architecture::from(VitPreset::Nano);
    let error = serve(config).await.expect_err("it started").to_string();
    assert!(error.contains("and the room's model is vit_nano_patch4_32"), "{error}");
}
