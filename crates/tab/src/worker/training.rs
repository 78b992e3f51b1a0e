//! The step of one round.

use unmask_client::{Plan, Step};
use unmask_core::{ModelState, Rule};
use unmask_model::{Device, ModelError, Network};

use super::samples::Samples;

/// One gradient, or the local epochs, as the plan's rule says, on `samples`.
///
/// # Errors
/// As [`Network::loss_and_gradient`] and [`Network::train_locally`].
pub async fn step(plan: &Plan, samples: &Samples<'_>, device: &Device) -> Result<Step, ModelError> {
    let network = Network::new(plan.architecture, device)?;
    let side = plan.architecture.side();
    match plan.rule {
        Rule::FedSgd => {
            let (images, labels) = samples.batch(0, samples.len(), side);
            let step = network.loss_and_gradient(&plan.state, &images, &labels).await?;
            Ok(Step {
                loss: step.loss,
                values: step.gradient,
                statistics: step.statistics,
                samples: labels.len() as u32,
            })
        }
        Rule::FedAvg { epochs, rate } => local_epochs(&network, plan, samples, epochs, rate).await,
    }
}

/// `epochs` passes of [`Network::train_locally`], a batch at a time: plain SGD remembers nothing from one batch to the next, so
/// this ends where one call with all pictures would, without having them all at the model's size.
async fn local_epochs(
    network: &Network,
    plan: &Plan,
    samples: &Samples<'_>,
    epochs: u16,
    rate: f32,
) -> Result<Step, ModelError> {
    let side = plan.architecture.side();
    let mut state: Option<ModelState> = None;
    let (mut first_pass, mut count) = (0.0, 0);
    for epoch in 0..epochs {
        let mut first = 0;
        while first < samples.len() {
            let (images, labels) = samples.batch(first, plan.batch, side);
            let before = state.as_ref().unwrap_or(&plan.state);
            let trained = network.train_locally(before, &images, &labels, plan.batch, 1, rate).await?;
            if epoch == 0 {
                first_pass += f64::from(trained.loss) * labels.len() as f64;
                count += labels.len();
            }
            state = Some(trained.state);
            first += plan.batch;
        }
    }
    let ModelState { weights: values, statistics } = state.ok_or(ModelError::NoLocalEpochs)?;
    Ok(Step { loss: (first_pass / count as f64) as f32, values, statistics, samples: count as u32 })
}

#[cfg(test)]
mod tests {
    use unmask_client::{Action, Client, News, TrainOn};
    use unmask_core::{Architecture, Defence, VitPreset};
    use unmask_model::device::OpenDevice;
    use unmask_wire::{RelayMessage, ShardHeader, frames};
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::{protocol::PICTURE_SIDE, worker::own_picture::OwnPicture};

    const LABELS: [u8; 5] = [3, 1, 4, 1, 5];

    /// A plan on five shared pictures that came over the wire.
    fn plan(rule: Rule) -> Plan {
        let header = ShardHeader {
            number: 1,
            data: "stripes".to_owned(),
            partition: "iid".to_owned(),
            seat: 0,
            seats: 1,
            classes: (0..10).map(|class| class.to_string()).collect(),
            side: 32,
            pictures: LABELS.len() as u32,
        };
        let pixels: Vec<u8> = (0..3 * 32 * 32 * LABELS.len()).map(|i| (i * i % 251) as u8).collect();
        let words = header.words(&LABELS, &pixels).expect("a shard");
        let mut client = Client::new("Ada", "CPU");
        let mut came = None;
        for frame in frames(&RelayMessage::Shard(header), &words).expect("frames") {
            if let Some(Action::Tell(News::Shard(shard))) = client.receive(&frame).expect("a message") {
                came = Some(shard);
            }
        }
        let architecture = Architecture::from(VitPreset::Pico);
        Plan {
            round: 1,
            policy: 1,
            architecture,
            layout: architecture.layout(),
            defence: Defence::None,
            rule,
            batch: 2,
            train_on: TrainOn::Shared { shard: came.expect("a shard"), positions: vec![4, 0, 1, 2, 3] },
            state: architecture.initial(7),
            cipher: None,
        }
    }

    fn own() -> OwnPicture {
        OwnPicture::new(vec![99; 3 * (PICTURE_SIDE * PICTURE_SIDE) as usize], 2).expect("a picture")
    }

    #[wasm_bindgen_test]
    async fn local_epochs_in_batches_end_where_one_call_ends() {
        let (device, own) = (OpenDevice::cpu(), own());
        let plan = plan(Rule::FedAvg { epochs: 2, rate: 0.05 });
        let samples = Samples::of(&plan, &own).expect("samples");
        let found = step(&plan, &samples, device.device()).await.expect("a step");
        let network = Network::new(plan.architecture, device.device()).expect("a model");
        let (images, labels) = samples.batch(0, 5, plan.architecture.side());
        assert_eq!(labels, [5, 3, 1, 4, 1]);
        let expected = network.train_locally(&plan.state, &images, &labels, 2, 2, 0.05).await.expect("local epochs");
        assert_eq!((found.samples, &found.values), (5, &expected.state.weights));
        assert!((found.loss - expected.loss).abs() < 1e-6, "{} and {}", found.loss, expected.loss);
    }

    #[wasm_bindgen_test]
    async fn a_gradient_is_of_the_shared_pictures_and_not_of_the_private_one() {
        let (device, own) = (OpenDevice::cpu(), own());
        let plan = plan(Rule::FedSgd);
        let samples = Samples::of(&plan, &own).expect("samples");
        let shared = step(&plan, &samples, device.device()).await.expect("a step");
        let private = step(&plan, &Samples::Private(&own), device.device()).await.expect("a step");
        assert_eq!((shared.samples, private.samples), (5, 1));
        assert_ne!(shared.values, private.values);
    }
}
