//! `unmask join --flower`: a client that is a node of a Flower federation, without a room.

use std::path::{Path, PathBuf};

use clap::Args;
use unmask_client::native::{
    FlowerOptions, FlowerPictures, FlowerTraining, ShardChoice, join_flower, load_samples, sample_photographs,
};
use unmask_core::{Architecture, Defence, Partition, Rule, VitPreset};
use unmask_data::datasets::{DataSet, Source, default_cifar10_folder};
use unmask_flower::{Limits, NodeKey, NodeOptions, SuperLinkAddress};
use unmask_model::device::OpenDevice;

use crate::{Failure, interrupt::asked_to_stop, model::model_argument};

#[derive(Debug, Args)]
#[command(next_help_heading = "Without a room, in a Flower federation")]
#[group(id = "in_flower", conflicts_with = "address")]
pub struct FlowerArguments {
    /// The address of a SuperLink: train directly under Flower.
    #[arg(long, value_name = "URL")]
    pub flower: Option<SuperLinkAddress>,
    /// This node's private key, for a SuperLink that only accepts registered keys; a new one if absent.
    #[arg(long, value_name = "FILE", requires = "flower")]
    flower_key: Option<PathBuf>,
    /// The certificates (PEM) that signed the SuperLink's; by default, those that browsers trust.
    #[arg(long, value_name = "FILE", requires = "flower")]
    flower_ca: Option<PathBuf>,
    /// A data set to train on a shard of: cifar10, generated or folder:PATH with a subfolder for each class.
    #[arg(long, value_name = "SOURCE", requires_all = ["flower", "shard"], conflicts_with = "images")]
    data: Option<Source>,
    /// Which shard of how many, such as 1/10.
    #[arg(long, value_name = "I/N", requires = "data")]
    shard: Option<ShardChoice>,
    /// How the data set is divided: iid or dirichlet:ALPHA.
    #[arg(long, value_name = "PARTITION", default_value = "iid", requires = "data")]
    partition: Partition,
    /// Seed of the division and of generated pictures; the same for all clients.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "data")]
    seed: u64,
    /// Folder of the CIFAR-10 files, if not the default of `unmask data cifar10`.
    #[arg(long, value_name = "DIR", requires = "data")]
    cifar10: Option<PathBuf>,
    /// The federation's model: a name such as vit_nano_patch4_32, one made of numbers, or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value_t = Architecture::from(VitPreset::Nano), value_parser = model_argument, requires = "flower")]
    model: Architecture,
    /// Defence applied to the weights before they leave: none, fixed-position, random-binary:R, frozen-binary:R or
    /// gaussian:eps=E,delta=D,clip=S; `unmask relay --help` explains them.
    #[arg(long, value_name = "DEFENCE", default_value = "none", requires = "flower")]
    defence: Defence,
    /// Local epochs and learning rate, if the server sends none: fedavg:epochs=E,rate=RATE.
    #[arg(long, value_name = "RULE", default_value_t = Rule::FED_AVG, requires = "flower")]
    rule: Rule,
    /// Batch size, if the server sends none.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), requires = "flower")]
    batch: u16,
}

impl FlowerArguments {
    /// Returns the options to join with: the pictures in `images`, a shard of a data set, or else the sample
    /// photographs.
    ///
    /// # Errors
    /// An argument names something that does not exist or cannot work.
    pub fn options(
        self,
        images: Option<&Path>,
        device: impl FnOnce() -> anyhow::Result<OpenDevice>,
    ) -> anyhow::Result<FlowerOptions> {
        let Some(address) = self.flower else {
            anyhow::bail!("give the room's address, or --flower with a SuperLink's")
        };
        let key = self.flower_key.as_deref().map_or_else(NodeKey::generate, NodeKey::read)?;
        let training = FlowerTraining::new(self.rule, self.batch).map_err(anyhow::Error::msg)?;
        let pictures = match (self.data.zip(self.shard), images) {
            (Some((source, shard)), _) => {
                let folder = self.cifar10.unwrap_or_else(default_cifar10_folder);
                let set = DataSet::load(&source, &folder, self.seed)?;
                set.left_out.iter().for_each(|sentence| tracing::warn!("{sentence}"));
                FlowerPictures::shard(&set, self.partition, shard, self.seed)?
            }
            (None, Some(folder)) => FlowerPictures::own(load_samples(folder)?),
            (None, None) => FlowerPictures::own(sample_photographs()?),
        };
        let node = NodeOptions { address, key, certificates: self.flower_ca, limits: Limits::default() };
        let Self { model: architecture, defence, .. } = self;
        let mut options = FlowerOptions { node, pictures, architecture, training, defence, device: OpenDevice::cpu() };
        options.check()?;
        // Last, because the probe takes seconds.
        options.device = device()?;
        Ok(options)
    }
}

/// Trains under Flower until the process is stopped.
///
/// # Errors
/// [`Failure::Other`] if the SuperLink does not answer or rejects this node.
pub async fn run(options: FlowerOptions) -> Result<(), Failure> {
    join_flower(options, asked_to_stop()).await.map_err(Failure::Other)
}
