//! Creates a run from a config and pictures.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rayon::{ThreadPool, ThreadPoolBuilder};
use unmask_core::{Aggregation, ModelState, ParamLayout};
use unmask_data::datasets::{DataSet, divide};
use unmask_defence::{Cipher, RoomKey};
use unmask_federation::{Aggregate, Optimiser, UpdateCounts};
use unmask_model::{
    Network,
    device::{Compute, OpenDevice},
};

use super::{RunState, Simulation, plan::RunPlan};
use crate::{Config, SimulationError, order::Order, seeds::Seeds, start};

impl<'a> Simulation<'a> {
    /// Creates a run of `config` on the pictures of `data`, before its first round. Ignores the config's `data`,
    /// `data_dir` and `device`: the caller has opened them.
    ///
    /// # Errors
    /// [`SimulationError`]: the config contradicts itself, or does not fit the pictures or the machine.
    pub fn new(config: &Config, data: &'a DataSet, device: &OpenDevice) -> Result<Self, SimulationError> {
        let plan = RunPlan::new(config, data)?;
        let architecture = config.architecture(data.train.classes().len())?;
        let (layout, seeds) = (Arc::new(architecture.layout()), Seeds(config.seed));
        let labels: Vec<u8> = data.train.labels().get(plan.train.clone()).unwrap_or_default().to_vec();
        let shards = divide(config.partition, &labels, config.clients, config.seed)?;
        let place = |shard: Vec<usize>| shard.into_iter().map(|index| index + plan.train.start).collect();
        let orders = shards.into_iter().enumerate().map(|(client, shard)| Order::new(client, place(shard))).collect();
        let mut test: Vec<usize> = (0..data.test.len()).collect();
        test.shuffle(&mut seeds.rng("test", 0, 0));
        test.truncate(config.test_pictures);
        let cipher = cipher(config, seeds, &layout)?;
        let (ModelState { mut weights, statistics }, notes) = start::load(config, architecture)?;
        if let Some(cipher) = &cipher {
            cipher.encrypt(&mut weights)?;
        }
        let current = RunState {
            round: 0,
            weights,
            statistics,
            optimiser: Optimiser::new(config.optimiser),
            counts: UpdateCounts::new(Arc::clone(&layout), config.defence),
            metrics: Vec::new(),
            seconds: 0.0,
        };
        Ok(Self {
            notes,
            data,
            test,
            orders,
            architecture,
            network: Network::new(architecture, device.device())?,
            cipher,
            seeds,
            pool: pool(config, device)?,
            current,
            aggregate: Aggregate::new(Arc::clone(&layout), config.defence, Aggregation::Mean)
                .with_min_kept(config.min_kept),
            layout,
            plan,
        })
    }
}

/// The clients' keys, if the run is encrypted. A room draws the salt at random; here it is derived from the seed.
fn cipher(config: &Config, seeds: Seeds, layout: &ParamLayout) -> Result<Option<Cipher>, SimulationError> {
    let (Some(start), Some(passphrase)) = (config.defence.encryption(), &config.passphrase) else {
        return Ok(None);
    };
    let mut salt = [0; 16];
    salt.copy_from_slice(&seeds.bytes("salt", 0, 0)[..16]);
    let key = RoomKey::derive(passphrase, &salt, start)?;
    Ok(Some(Cipher::new(&key, layout)?))
}

/// Threads for the clients, and for the parallel parts of a single client's step. A GPU needs only one.
fn pool(config: &Config, device: &OpenDevice) -> Result<ThreadPool, SimulationError> {
    let threads = match device.compute() {
        Compute::Gpu => 1,
        Compute::Cpu => config.threads.unwrap_or(0),
    };
    let failed = |error: rayon::ThreadPoolBuildError| SimulationError::Threads { threads, reason: error.to_string() };
    ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("client {n}")).build().map_err(failed)
}
