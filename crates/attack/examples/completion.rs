//! Repeats the measured table of `completion`: gradients of photographs behind random masks.
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::SafeTensors;
use std::{error::Error, path::Path, time::Instant};
use unmask_attack::{Evidence, Rounding, TensorSource, Tensors, completion};
use unmask_core::{VitConfig, VitPreset};
use unmask_data::metrics;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = Path::new(&args[0]);
    let prefix = &args[1];
    let rates: Vec<f64> = args[2].split(',').map(|r| r.parse().unwrap()).collect();
    let seeds: u64 = args[3].parse()?;
    let mut names: Vec<_> = std::fs::read_dir(dir)?
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.starts_with(prefix))
        .collect();
    names.sort();
    for rate in rates {
        let (mut exact, mut all) = (0, 0);
        for name in &names {
            for seed in 0..seeds {
                let bytes = std::fs::read(dir.join(name))?;
                let file = SafeTensors::deserialize(&bytes)?;
                let preset = name.split('-').next().unwrap();
                let config = match preset {
                    "vit_base_patch32_224" => VitConfig {
                        image: 224,
                        patch: 32,
                        dim: 768,
                        depth: 1,
                        heads: 12,
                        classes: 10,
                        april_block: false,
                    },
                    _ => unmask_core::VitSpec::new(preset.parse::<VitPreset>()?).config(),
                };
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let mut gradients = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
                for tensor in ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"] {
                    let view = file.tensor(tensor)?;
                    let values: Vec<f64> =
                        view.data().as_chunks().0.iter().map(|&c| f64::from(f32::from_le_bytes(c))).collect();
                    let kept = values.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
                    gradients.insert_kept(tensor, view.shape(), values, kept)?;
                }
                let truth: Vec<f32> = file.tensor("image")?.data().iter().map(|&b| f32::from(b) / 255.0).collect();
                let evidence =
                    Evidence { weights: Tensors::new(TensorSource::Weights, &config, Rounding::F32), gradients };
                let clock = Instant::now();
                let found = completion(&evidence);
                let seconds = clock.elapsed().as_secs_f64();
                all += 1;
                match found {
                    Ok(found) => {
                        let psnr = metrics::psnr(&found.image, &truth, config.image, config.image).unwrap();
                        if psnr > 90.0 {
                            exact += 1;
                        }
                        println!("{name} R {rate} seed {seed}: {psnr:.1} dB {seconds:.2} s {:?}", found.notes);
                    }
                    Err(error) => println!("{name} R {rate} seed {seed}: {error} {seconds:.2} s"),
                }
            }
        }
        println!("R {rate}: {exact} of {all} exact");
    }
    Ok(())
}
