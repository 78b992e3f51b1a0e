//! The same numbers as PyTorch and timm, on every device.

use std::path::Path;

use unmask_core::{Architecture, VitPreset};
use unmask_model::{
    Device, block_on,
    device::{self, Compute},
    parity::{self, Reference},
    weights::{TensorReader, read_state},
};

/// Runs `test` on the CPU and on a GPU, as one test each. The latter reports that it is skipped if there is no graphics
/// adapter.
macro_rules! test_device {
    ($(#[$attribute:meta])* $test:ident) => {
        mod $test {
            #[test]
            $(#[$attribute])*
            fn cpu() {
                super::$test(&super::Device::Cpu);
            }

            #[test]
            $(#[$attribute])*
            fn gpu() {
                match super::device::open_blocking(super::Compute::Gpu) {
                    Ok(gpu) => {
                        eprintln!("on {}", gpu.description());
                        super::$test(gpu.device());
                    }
                    Err(error) => crate::skipped::skipped(error),
                }
            }
        }
    };
}

test_device!(pico_agrees_with_pytorch);
test_device! {
    #[ignore = "needs `python scripts/make_vectors.py --lab`"]
    lab_agrees_with_pytorch
}

fn pico_agrees_with_pytorch(device: &Device) {
    let report = block_on(parity::check(device)).unwrap();
    eprintln!("{report:#?}");
}

fn lab_agrees_with_pytorch(device: &Device) {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/vectors");
    for april_block in [false, true] {
        let case = format!("vit_lab_patch4_32_{}_astronaut", if april_block { "april" } else { "standard" });
        let deviation = block_on(lab(&vectors.join(&case), april_block).deviation(device)).unwrap();
        eprintln!("{case}: {deviation:?}");
        assert!(deviation.is_within_tolerance(), "{case}: {deviation:?}");
    }
}

/// Reads reference vectors that are too large for the repository.
fn lab(folder: &Path, april_block: bool) -> Reference {
    let open = |name: &str| TensorReader::open(&folder.join(name)).unwrap();
    let architecture = Architecture::from(VitPreset::Lab).with_april_block(april_block);
    let layout = architecture.layout();
    let mut expected = open("expected.safetensors");
    // `input` is already normalised; `image` is the picture, channels last.
    let image = expected.read::<f32>("image").unwrap();
    let [height, width, channels] = image.shape[..] else { panic!("image has shape {:?}", image.shape) };
    let images = (0..channels)
        .flat_map(|c| (0..height * width).map(move |pixel| (pixel, c)))
        .map(|(pixel, c)| image.values[pixel * channels + c])
        .collect();
    let info = std::fs::read_to_string(folder.join("info.json")).unwrap();
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    Reference {
        architecture,
        state: read_state(open("weights.safetensors"), architecture).unwrap(),
        images,
        labels: vec![info["label"].as_u64().unwrap() as usize],
        logits: expected.read("logits").unwrap().values,
        loss: info["loss"].as_f64().unwrap(),
        gradient: open("gradients.safetensors").read_flat(&layout).unwrap(),
    }
}
