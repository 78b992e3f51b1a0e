//! `unmask invert` as a user runs it.

#[path = "../../../tests/support/program.rs"]
mod program;
#[path = "../../../tests/support/schema.rs"]
mod schema;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;
use tempfile::TempDir;
use unmask_data::{Picture, encode_png, metrics};
use unmask_inversion::InferenceAttack;

use program::unmask;

const NANO: &str = "vit_nano_patch4_32";

#[derive(Clone, Copy)]
enum Type {
    F16,
    Bf16,
    F32,
    F64,
    U8,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::U8 => "U8",
        }
    }

    fn bytes(self, value: f64) -> Vec<u8> {
        match self {
            Self::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
            Self::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
            Self::F32 => (value as f32).to_le_bytes().to_vec(),
            Self::F64 => value.to_le_bytes().to_vec(),
            Self::U8 => vec![value as u8],
        }
    }
}

#[derive(Clone)]
struct Tensor {
    name: &'static str,
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// A safetensors file, written from the description of the format.
fn safetensors(tensors: &[Tensor], dtype: Type) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for tensor in tensors {
        let start = data.len();
        data.extend(tensor.values.iter().flat_map(|&value| dtype.bytes(value)));
        let entry = serde_json::json!({
            "dtype": dtype.name(), "shape": tensor.shape, "data_offsets": [start, data.len()],
        });
        header.insert(tensor.name.to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// A folder in which the command runs.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        unmask().arg("invert").args(arguments).args(["--out".as_ref(), self.path("out").as_os_str()]).output().unwrap()
    }

    /// Runs, expects success, and returns the report and the picture.
    fn success(&self, arguments: &[&str]) -> (Value, Vec<f32>) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let out = self.path("out");
        let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
        schema::assert_conforms(&report, "report");
        let image = stored(&out.join("reconstruction.safetensors"), "reconstruction");
        let side = (image.len() / 3).isqrt();
        assert!(image.iter().all(|value| (0.0..=1.0).contains(value)));
        let png = unmask_data::decode(&fs::read(out.join("reconstruction.png")).unwrap()).unwrap();
        assert_eq!(png, Picture::from_hwc(side, side, &image).unwrap());
        (report, image)
    }

    /// Runs, expects exit code 2, and returns the one line on stderr.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(!self.path("out").exists(), "a refused run leaves nothing behind");
        message
    }
}

/// The values of a square picture in a safetensors file, `[side, side, 3]`.
fn stored(file: &Path, name: &str) -> Vec<f32> {
    let bytes = fs::read(file).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let tensor = &header[name];
    assert_eq!(tensor["dtype"], "F32", "{name} in {header}");
    let offset = |end: usize| 8 + header_len + tensor["data_offsets"][end].as_u64().unwrap() as usize;
    let (chunks, rest) = bytes[offset(0)..offset(1)].as_chunks();
    assert!(rest.is_empty());
    let image: Vec<f32> = chunks.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect();
    let side = (image.len() / 3).isqrt();
    assert_eq!(tensor["shape"], serde_json::json!([side, side, 3]));
    image
}

/// Uniform values in [-1, 1] from a seed (splitmix64).
fn noise(mut state: u64, count: usize) -> Vec<f64> {
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count).map(|_| (next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0).collect()
}

/// A picture of 8-bit colours, 32 x 32.
fn photograph() -> Picture {
    let hwc: Vec<f32> = (0..32 * 32 * 3)
        .map(|i| {
            let (x, y, c) = ((i / 3 % 32) as f32, (i / 96) as f32, (i % 3) as f32);
            0.5 + 0.25 * (0.4 * x + c).sin() * (0.3 * y).cos() + if x > y { 0.2 } else { 0.0 }
        })
        .collect();
    Picture::from_hwc(32, 32, &hwc).unwrap()
}

/// Gradients of the nano model's embeddings for one picture: any G_pos, and G_E = G_pos^T X.
fn gradients(picture: &Picture) -> Vec<Tensor> {
    let (dim, grid, patch) = (96, 8, 4);
    let (patches, patch_len) = (grid * grid, 3 * patch * patch);
    let position = noise(1, (patches + 1) * dim);
    let hwc = picture.to_hwc();
    let mut embedding = vec![0.0; dim * patch_len];
    for s in 0..patches {
        for l in 0..patch_len {
            let (c, y, x) = (l / (patch * patch), l / patch % patch, l % patch);
            let (row, column) = (s / grid * patch + y, s % grid * patch + x);
            let pixel = f64::from(hwc[(row * 32 + column) * 3 + c]) * 2.0 - 1.0;
            for d in 0..dim {
                embedding[d * patch_len + l] += position[(s + 1) * dim + d] * pixel;
            }
        }
    }
    vec![
        Tensor { name: "pos_embed", shape: vec![1, patches + 1, dim], values: position },
        Tensor { name: "patch_embed.proj.weight", shape: vec![dim, 3, patch, patch], values: embedding },
    ]
}

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"))
}

#[test]
fn recovers_the_picture_from_every_type() {
    let case = Case::new();
    let picture = photograph();
    let truth = case.file("truth.png", &encode_png(&picture).unwrap());
    for (dtype, least) in [(Type::F64, 99.0), (Type::F32, 89.0), (Type::F16, 40.0), (Type::Bf16, 25.0)] {
        let file = case.file("g.safetensors", &safetensors(&gradients(&picture), dtype));
        let (report, image) =
            case.success(&["--model", NANO, "--gradients", &file, "--attack", "embedding", "--truth", &truth]);
        let psnr = number(&report, "psnr");
        assert!(psnr >= least, "{}: {psnr} dB", dtype.name());
        assert_eq!(psnr, metrics::psnr(&image, &picture.to_hwc(), 32, 32).unwrap());
        assert!(number(&report, "ssim") > 0.9);
        assert!(number(&report, "seconds") > 0.0);
        assert!((1e-3..1.0).contains(&number(&report, "singular_values_ratio")));
        assert_eq!((&report["attack"], &report["model"]), (&"embedding".into(), &NANO.into()));
    }
}

/// The shapes give the model, and the normalisation gives the picture its own colours.
#[test]
fn any_model_in_any_pixels() {
    let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let case = Case::new();
    let picture = photograph();
    let truth = case.file("truth.png", &encode_png(&picture).unwrap());
    let mut gradients = gradients(&picture);
    let [position, embedding] = &mut gradients[..] else { panic!() };
    for (index, value) in embedding.values.iter_mut().enumerate() {
        // Instead of x = 2 p - 1 the model saw (p - mean) / std.
        let (d, channel) = (index / 48, index % 48 / 16);
        let bias: f64 = position.values.chunks(96).skip(1).map(|row| row[d]).sum();
        *value = *value / (2.0 * std[channel]) + bias * (0.5 - mean[channel]) / std[channel];
    }
    gradients[0].name = "module.pos_embed";
    gradients[1].name = "module.patch_embed.proj.weight";
    let file = case.file("g.safetensors", &safetensors(&gradients, Type::F64));
    let arguments = ["--gradients", &file, "--attack", "embedding", "--truth", &truth];
    let fed = ["--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"];
    let (report, _) = case.success(&[&arguments[..], &fed].concat());
    assert!(number(&report, "psnr") > 80.0, "{report}");
    assert_eq!(report["model"], "vit_patch4_dim96_depth0_heads1_32");
    let (wrong, _) = case.success(&arguments);
    assert!(number(&wrong, "psnr") < 30.0, "{wrong}");
    fs::remove_dir_all(case.path("out")).unwrap();
    let refused = |more: &[&str]| case.refusal(&[&arguments[..4], more].concat());
    assert!(refused(&["--std", "0"]).contains("--std 0 is no deviation"));
    assert!(refused(&["--heads", "5"]).contains("choose a number of heads that divides 96"));
    assert!(refused(&["--side", "64"]).contains("tells images of 32 x 32 pixels"));
    let searched = case.refusal(&["--gradients", &file, "--weights", &file, "--attack", "matching"]);
    assert!(searched.contains("no file holds its blocks"), "{searched}");
    gradients.push(Tensor { name: "blocks.11.norm1.bias", shape: vec![96], values: vec![0.0; 96] });
    case.file("g.safetensors", &safetensors(&gradients, Type::F32));
    let deeper = refused(&["--model", NANO]);
    assert!(deeper.contains("deeper model than vit_nano_patch4_32") && deeper.contains("blocks.11"), "{deeper}");
    fs::write(case.path("mine.toml"), "image = 32\npatch = 4\ndim = 96\ndepth = 12\nheads = 4\n").unwrap();
    let (report, _) =
        case.success(&[&arguments[..], &["--model", &case.path("mine.toml").display().to_string()]].concat());
    assert_eq!(report["model"], "vit_patch4_dim96_depth12_heads4_32");
}

#[test]
fn truth_is_optional_and_label_is_reported() {
    let case = Case::new();
    let file = case.file("g.safetensors", &safetensors(&gradients(&photograph()), Type::F32));
    let (report, _) = case.success(&["--model", NANO, "--gradients", &file, "--attack", "embedding", "--label", "3"]);
    assert_eq!(report["label"], 3);
    assert!(report.get("psnr").is_none() && report.get("ssim").is_none(), "{report}");
    assert!(report["because"].as_str().unwrap().contains("cannot be checked"), "{report}");
}

#[test]
fn mask_hides_what_it_zeroes() {
    let case = Case::new();
    let picture = photograph();
    let truth = case.file("truth.png", &encode_png(&picture).unwrap());
    let gradients = gradients(&picture);
    let file = case.file("g.safetensors", &safetensors(&gradients, Type::F32));
    let masked = |keep: &dyn Fn(f64) -> bool| {
        let mut mask = gradients.clone();
        for (seed, tensor) in (5..).zip(&mut mask) {
            tensor.values = noise(seed, tensor.values.len()).iter().map(|&v| f64::from(u8::from(keep(v)))).collect();
        }
        let mask = case.file("m.safetensors", &safetensors(&mask, Type::U8));
        let arguments = ["--model", NANO, "--gradients", &file, "--attack", "embedding", "--truth", &truth];
        case.success(&[&arguments[..], &["--mask", &mask]].concat()).0
    };
    let half = masked(&|value| value < 0.0);
    assert!(number(&half, "ssim") < 0.3, "{half}");
    assert!((number(&half, "hidden_share") - 0.5).abs() < 0.02, "{half}");
    let none = masked(&|_| true);
    assert!(number(&none, "psnr") > 89.0, "{none}");
    assert_eq!(number(&none, "hidden_share"), 0.0);
}

/// A mask on only the patch embedding hides nothing from an attacker who knows the mask.
#[test]
fn who_knows_the_mask_sees_what_the_naive_attacker_does_not() {
    let case = Case::new();
    let picture = photograph();
    let truth = case.file("truth.png", &encode_png(&picture).unwrap());
    let gradients = gradients(&picture);
    let file = case.file("g.safetensors", &safetensors(&gradients, Type::F32));
    let mut mask = gradients;
    mask[0].values.fill(1.0);
    mask[1].values = noise(7, mask[1].values.len()).iter().map(|&v| f64::from(u8::from(v > -0.6))).collect();
    let mask = case.file("m.safetensors", &safetensors(&mask, Type::U8));
    let arguments = ["--model", NANO, "--gradients", &file, "--mask", &mask, "--truth", &truth, "--attack"];
    let (naive, _) = case.success(&[&arguments[..], &["embedding"]].concat());
    let (aware, _) = case.success(&[&arguments[..], &["embedding-aware"]].concat());
    assert!(number(&naive, "ssim") < 0.7 && number(&aware, "ssim") > 0.95, "{naive} {aware}");
    assert_eq!(naive["hidden_share"], aware["hidden_share"]);
}

/// Each round hides other values; together they hide few.
#[test]
fn several_rounds_show_more_than_one() {
    let case = Case::new();
    let picture = photograph();
    let truth = case.file("truth.png", &encode_png(&picture).unwrap());
    let gradients = gradients(&picture);
    fs::create_dir(case.path("rounds")).unwrap();
    for round in 0..8 {
        let mut mask = gradients.clone();
        for (seed, tensor) in (100 + 2 * round..).zip(&mut mask) {
            tensor.values = noise(seed, tensor.values.len()).iter().map(|&v| f64::from(u8::from(v > -0.4))).collect();
        }
        case.file(&format!("rounds/{round}.safetensors"), &safetensors(&gradients, Type::F32));
        case.file(&format!("rounds/{round}.mask.safetensors"), &safetensors(&mask, Type::U8));
    }
    let folder = case.path("rounds").display().to_string();
    let arguments = ["--model", NANO, "--rounds", &folder, "--truth", &truth, "--attack"];
    let (report, _) = case.success(&[&arguments[..], &["rounds"]].concat());
    assert!(number(&report, "ssim") > 0.9, "{report}");
    assert!((number(&report, "hidden_share") - 0.3).abs() < 0.02, "{report}");
    assert!(report["notes"].to_string().contains("8 of 8 rounds"), "{report}");

    fs::remove_dir_all(case.path("out")).unwrap();
    let message = case.refusal(&[&arguments[..], &["embedding"]].concat());
    assert!(message.contains("embedding attacks one update") && message.contains("--attack rounds"), "{message}");
    fs::remove_file(case.path("rounds/3.safetensors")).unwrap();
    let message = case.refusal(&[&arguments[..], &["rounds"]].concat());
    assert!(message.contains("3.mask.safetensors is the mask of no update"), "{message}");
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let case = Case::new();
    let good = gradients(&photograph());
    let refused = |tensors: &[Tensor], model: &str| {
        let file = case.file("g.safetensors", &safetensors(tensors, Type::F32));
        case.refusal(&["--model", model, "--gradients", &file, "--attack", "embedding"])
    };

    let message = refused(&good[..1], NANO);
    assert!(message.contains("patch_embed.proj.weight") && message.contains("missing"), "{message}");

    let mut wrong = good.clone();
    wrong[0].shape = vec![65 * 96];
    let message = refused(&wrong, NANO);
    assert!(
        message.contains("pos_embed") && message.contains("[6240]") && message.contains("[1, 65, 96]"),
        "{message}"
    );

    let mut broken = good.clone();
    broken[1].values[10] = f64::NAN;
    let message = refused(&broken, NANO);
    assert!(message.contains("NaN") && message.contains("patch_embed.proj.weight"), "{message}");

    let mut fixed = good.clone();
    fixed[0].values.fill(0.0);
    let message = refused(&fixed, NANO);
    assert!(message.contains("Embedding inversion cannot work") && message.contains("position embedding"), "{message}");

    let tiny = [
        Tensor { name: "pos_embed", shape: vec![1, 197, 192], values: vec![0.5; 197 * 192] },
        Tensor { name: "patch_embed.proj.weight", shape: vec![192, 3, 16, 16], values: vec![0.5; 192 * 768] },
    ];
    let message = refused(&tiny, "vit_tiny_patch16_224");
    assert!(message.contains("D = 192") && message.contains("196"), "{message}");

    let file = case.file("g.safetensors", b"not at all");
    let message = case.refusal(&["--model", NANO, "--gradients", &file, "--attack", "embedding"]);
    assert!(message.contains("safetensors"), "{message}");

    let nowhere = case.path("nowhere.safetensors").display().to_string();
    let message = case.refusal(&["--model", NANO, "--gradients", &nowhere, "--attack", "embedding"]);
    assert!(message.contains("nowhere.safetensors"), "{message}");
}

#[test]
fn bad_masks_and_truths_are_refused() {
    let case = Case::new();
    let good = gradients(&photograph());
    let file = case.file("g.safetensors", &safetensors(&good, Type::F32));
    let arguments = ["--model", NANO, "--gradients", &file, "--attack", "embedding"];

    let mut mask = good.clone();
    mask.iter_mut().for_each(|tensor| tensor.values.fill(2.0));
    let mask_file = case.file("m.safetensors", &safetensors(&mask, Type::U8));
    let message = case.refusal(&[&arguments[..], &["--mask", &mask_file]].concat());
    assert!(message.contains("m.safetensors") && message.contains("holds 2"), "{message}");

    let mask_file = case.file("m.safetensors", &safetensors(&mask[..1], Type::U8));
    let message = case.refusal(&[&arguments[..], &["--mask", &mask_file]].concat());
    assert!(message.contains("patch_embed.proj.weight"), "{message}");

    let truth = case.file("truth.png", b"GIF89a");
    let message = case.refusal(&[&arguments[..], &["--truth", &truth]].concat());
    assert!(message.contains("truth.png") && message.contains("not a PNG"), "{message}");
}

#[test]
fn wrong_arguments_exit_with_2() {
    let case = Case::new();
    let file = case.file("g.safetensors", &safetensors(&gradients(&photograph()), Type::F32));
    for (arguments, says) in [
        (["--model", "vit_huge", "--attack", "embedding"], "the models are vit_pico_patch4_16"),
        (["--model", NANO, "--attack", "magic"], "the attacks are embedding, embedding-aware, april"),
        (["--model", NANO, "--attack", "april"], "--weights"),
    ] {
        let output = case.run(&[&arguments[..], &["--gradients", &file]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn help_names_every_attack() {
    let output = unmask().args(["invert", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for trial in InferenceAttack::all() {
        assert!(help.contains(&format!(" {trial}")), "{trial}");
    }
}

#[test]
fn unwritable_output_exits_with_1() {
    let case = Case::new();
    let file = case.file("g.safetensors", &safetensors(&gradients(&photograph()), Type::F32));
    fs::write(case.path("out"), b"a file where a folder should be").unwrap();
    let output = case.run(&["--model", NANO, "--gradients", &file, "--attack", "embedding"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be made"));
}

/// PyTorch's gradients of a photograph, committed beside the attacks.
#[test]
fn pytorch_gradients_give_the_photograph() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attack/tests/data");
    let case = Case::new();
    let path = |name: &str| data.join(name).display().to_string();
    let arguments = ["--model", "vit_lab_patch4_32", "--attack", "embedding", "--gradients"];
    let (report, image) = case.success(&[&arguments[..], &[&path("gradients.safetensors")]].concat());
    assert!((number(&report, "singular_values_ratio") / 1.4e-4 - 1.0).abs() < 0.1, "{report}");
    let truth = case.file("truth.png", &encode_png(&Picture::from_hwc(32, 32, &image).unwrap()).unwrap());
    let (gradients, mask) = (path("gradients_f64.safetensors"), path("mask_r0.5.safetensors"));
    let masked = [gradients.as_str(), "--mask", &mask, "--truth", &truth];
    let arguments = [&arguments[..], &masked].concat();
    let (report, _) = case.success(&arguments);
    assert!((number(&report, "ssim") - 0.065).abs() < 0.005, "{report}");
}

/// The same pictures on every system: those that PyTorch finds, also through a mask.
#[test]
fn pytorch_finds_the_same_pictures() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attack/tests/data");
    let path = |name: &str| data.join(name).display().to_string();
    let (gradients, mask) = (path("gradients_f64.safetensors"), path("mask_r0.5.safetensors"));
    let arguments = ["--model", "vit_lab_patch4_32", "--attack", "embedding", "--gradients", &gradients];
    for (name, masked) in [("embedding", vec![]), ("naive_embedding_r0.5", vec!["--mask", mask.as_str()])] {
        let case = Case::new();
        case.success(&[&arguments[..], &masked].concat());
        let png = unmask_data::decode(&fs::read(case.path("out/reconstruction.png")).unwrap()).unwrap();
        let expected = stored(&data.join("expected.safetensors"), name);
        assert_eq!(png, Picture::from_hwc(32, 32, &expected).unwrap(), "{name}");
    }
}

fn april_inverts(folder: &Path, model: &str) {
    let case = Case::new();
    let path = |name: &str| folder.join(name).display().to_string();
    let (weights, gradients) = (path("weights.safetensors"), path("gradients_f64.safetensors"));
    let arguments = ["--model", model, "--april-block", "--weights", &weights, "--gradients", &gradients, "--attack"];
    let (_, by_embedding) = case.success(&[&arguments[..], &["embedding"]].concat());
    let (report, by_april) = case.success(&[&arguments[..], &["april"]].concat());
    let side = (by_april.len() / 3).isqrt();
    let psnr = metrics::psnr(&by_april, &by_embedding, side, side).unwrap();
    assert!(psnr > 89.0, "two independent attacks see the same picture: {psnr} dB, {report}");
    assert_eq!(report["notes"], serde_json::json!([]));
}

#[test]
fn april_inverts_pytorch_gradients() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attack/tests/data/pico_april");
    april_inverts(&folder, "vit_pico_patch4_16");
}

#[test]
#[ignore = "needs `python scripts/make_vectors.py --lab`"]
fn april_inverts_pytorch_gradients_of_the_lab() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/vectors/vit_lab_patch4_32_april_astronaut");
    april_inverts(&folder, "vit_lab_patch4_32");
}
