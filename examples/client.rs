//! A federated client: joins a room with the pictures of a folder, and trains until the room closes.
//!
//!     cargo xtask example client 'http://127.0.0.1:8080/#room=0a1b2c...' photos
//!
//! The pictures stay on this machine. The room sees only updates, protected by the defence that its teacher chose.

use std::{env, path::Path};

use anyhow::Context;
use unmask_client::{
    Caution,
    native::{JoinOptions, join, load_samples, sample_photographs},
};
use unmask_model::device::OpenDevice;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().context("usage: client LINK [FOLDER]")?;
    let folder = arguments.next();
    let samples = match &folder {
        Some(folder) => load_samples(Path::new(folder))?,
        None => sample_photographs()?,
    };
    println!("Training on {} pictures", samples.len());
    join(JoinOptions {
        address,
        // The address contains the room's key.
        pin: None,
        name: "example".to_owned(),
        samples,
        // The class must not see what leaks of the user's own pictures.
        may_show: folder.is_none(),
        shows: folder.is_none(),
        // Answers the class's questions at random.
        answer_seed: Some(1),
        passphrase: None,
        device: OpenDevice::cpu(),
        caution: Caution::Weights,
        // A relay signs its own certificate; over plain HTTP there is none.
        accept_any_certificate: true,
    })
    .await
}
