//! Reconstructs the picture behind a gradient dumped by any framework; `unmask invert --help` shows how PyTorch dumps
//! one.
//!
//!     cargo xtask example invert vit_lab_patch4_32 crates/attack/tests/data/gradients.safetensors picture.png

use std::{env, fs, ops::ControlFlow, path::Path};

use anyhow::bail;
use unmask_attack::{Evidence, Needs, NoSearches, Observation, Rounding, SearchOptions, TensorSource, Tensors, run};
use unmask_core::{Architecture, AttackMethod};
use unmask_data::{Picture, encode_png};
use unmask_inversion::read_update;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [model, gradients, picture] = &arguments[..] else { bail!("usage: invert MODEL GRADIENTS PICTURE") };
    let model: Architecture = model.parse()?;

    // A closed form reads a few tensors of the gradient, and none of the model.
    let method = AttackMethod::Embedding;
    let update = read_update(&model.into(), &Path::new(gradients).into(), None, &Needs::of(method, model)?.gradients)?;
    let weights = Tensors::new(TensorSource::Weights, model, Rounding::F32);
    let observation = Observation::new(Ok(Evidence { weights, gradients: update.gradients }));

    let go_on = &mut |_: unmask_attack::AttackProgress<'_>| ControlFlow::Continue(());
    let found = run(method, &observation, &NoSearches, SearchOptions::default(), go_on)?;
    fs::write(picture, encode_png(&Picture::from_hwc(model.side(), model.side(), &found.pictures[0])?)?)?;
    println!("{} took {:.1} ms: {picture}", method.title(), 1e3 * found.seconds);
    Ok(())
}
