//! `unmask audit` as a user runs it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;
use unmask_core::Architecture;
use unmask_model::weights::encode;

use super::schema;

fn audit(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
    command.current_dir(folder.path()).arg("audit").args(arguments).args(["--out", "out"]).output().unwrap()
}

/// The report of a run that succeeds, which conforms to its schema.
fn report(folder: &TempDir, arguments: &[&str]) -> (Value, String) {
    let done = audit(folder, arguments);
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{words}");
    let path = |name: &str| folder.path().join("out").join(name);
    let report: Value = serde_json::from_slice(&fs::read(path("audit.json")).unwrap()).unwrap();
    schema::assert_conforms(&report, "audit");
    assert!(String::from_utf8_lossy(&done.stdout).contains(report["conclusion"].as_str().unwrap()));
    (report, fs::read_to_string(path("audit.html")).unwrap())
}

fn refusal(folder: &TempDir, arguments: &[&str]) -> String {
    let done = audit(folder, arguments);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn finding<'a>(report: &'a Value, viewer: &str, attack: &str) -> &'a Value {
    let views = report["views"].as_array().unwrap();
    let view = views.iter().find(|view| view["viewer"] == viewer).unwrap();
    view["findings"].as_array().unwrap().iter().find(|finding| finding["attack"] == attack).unwrap()
}

/// Whatever is predicted to be exact is exact when it is tried, and what counting forbids is not: on every kind of
/// update that the counting rules tell apart.
#[test]
fn predictions_hold_when_they_are_tried() {
    let plans: [(&str, &[&str]); 6] = [
        ("vit_pico_patch4_16", &[]),
        ("vit_nano_patch8_32", &["--batch", "3", "--cohort", "2"]),
        ("vit_nano_patch8_32", &["--defence", "random-binary:0.4"]),
        // Of more clients of this model, a curious one would take the others' batch apart, for minutes.
        ("vit_lab_patch8_32", &["--defence", "random-binary:pos=0,0.5", "--cohort", "2"]),
        ("vit_lab_patch8_32", &["--defence", "encrypted", "--cohort", "2"]),
        ("vit_pico_patch4_16", &["--secagg", "--cohort", "5"]),
    ];
    let mut tried = 0;
    for (model, arguments) in plans {
        let folder = tempfile::tempdir().unwrap();
        let (report, page) = report(&folder, &[&["--model", model, "--updates", "3"], arguments].concat());
        for view in report["views"].as_array().unwrap() {
            for finding in view["findings"].as_array().unwrap() {
                let Some(found) = finding["tried"].as_object() else { continue };
                let plan = format!("{model} {arguments:?} {finding}");
                match finding["outlook"].as_str().unwrap() {
                    "exact" => assert_eq!(found["recognisable"], 3, "{plan}"),
                    "counting-forbids" => assert_eq!(found["recognisable"], 0, "{plan}"),
                    _ => continue,
                }
                tried += 1;
            }
        }
        assert!(!page.contains("not what counting says"), "{model} {arguments:?}");
    }
    assert!(tried >= 15, "{tried}");
}

/// An honest server has no key, and a client has it.
#[test]
fn encryption_hides_pictures_from_a_server_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["--model", "vit_pico_patch4_16", "--defence", "encrypted:keyed", "--cohort", "2", "--updates", "2"];
    let (report, page) = report(&folder, &plan);
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(!conclusion.contains("The server can compute the picture"), "{conclusion}");
    assert!(conclusion.contains("With the key from one client"), "{conclusion}");
    assert_eq!(finding(&report, "server", "colluder")["outlook"], "exact");
    assert_eq!(finding(&report, "client", "embedding")["tried"]["recognisable"], 2);
    assert!(page.contains("A client that gives the key away"));
}

/// The conclusion follows what was tried, and a curious client of two sees the other one.
#[test]
fn a_client_of_two_sees_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let (two, page) =
        report(&folder, &["--model", "vit_pico_patch4_16", "--cohort", "2", "--secagg", "--updates", "2"]);
    assert_eq!(finding(&two, "server", "embedding")["outlook"], "counting-forbids");
    assert_eq!(finding(&two, "client", "embedding")["tried"]["recognisable"], 2);
    assert!(two["conclusion"].as_str().unwrap().contains("A curious client can compute"), "{two:#}");
    assert_eq!(finding(&two, "client", "embedding")["outlook"], "unknown", "a difference of models");
    let fished = finding(&two, "dishonest-server", "embedding");
    assert_eq!((&fished["outlook"], &fished["tried"]["recognisable"]), (&"exact".into(), &2.into()), "{fished}");
    assert!(two["conclusion"].as_str().unwrap().contains("doctored weights"), "{two:#}");
    assert!(page.contains("data:image/png;base64,") && page.contains("Who sees what"));
}

#[test]
fn claims_are_printed_as_they_are_and_weights_give_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let architecture: Architecture = "vit_pico_patch4_16".parse().unwrap();
    let (layout, weights) = (architecture.layout(), architecture.initial(3).weights);
    let tensors =
        layout.iter().map(|param| (param.name.as_str(), param.shape.as_slice(), &weights[param.range.clone()]));
    fs::write(folder.path().join("weights.bin"), encode(tensors).unwrap()).unwrap();
    let noise = "gaussian:eps=1.23456789,delta=0.001,clip=0.5";
    let (report, page) =
        report(&folder, &["--model", "weights.bin", "--heads", "3", "--defence", noise, "--updates", "1"]);
    assert_eq!(report["deployment"]["model"], "vit_pico_patch4_16");
    assert_eq!(report["privacy"]["epsilon"], 1.234_567_89);
    assert!(report["privacy"]["holds"][0]["epsilon"].as_f64().unwrap() > 1.234_567_89, "{}", report["privacy"]);
    assert!(page.contains("ε = 1.23456789, δ = 0.001"));
    assert!(page.contains("By trying, ε is at least"), "{page}");
    assert_eq!(finding(&report, "server", "embedding")["outlook"], "unknown");
}

/// A lower bound that was tried stands beside what the accountant says, and never above it.
#[test]
fn noise_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    for noise in ["eps=8,delta=1e-5,clip=0.5", "eps=8,delta=1e-5,clip=0.5,per=picture", "eps=500,delta=1e-5,clip=0.5"] {
        let defence = format!("gaussian:{noise}");
        let plan = ["--model", "vit_pico_patch4_16", "--batch", "2", "--defence", &defence, "--updates", "0"];
        let (report, page) = report(&folder, &[&plan[..], &["--canaries", "200"]].concat());
        let privacy = &report["privacy"];
        let (tried, holds) = (&privacy["tried"], privacy["holds"][0]["epsilon"].as_f64().unwrap());
        let epsilon = tried["epsilon"].as_f64().unwrap();
        assert_eq!(tried["trials"], 200);
        assert!(epsilon <= holds, "{noise}: {privacy}");
        assert!(!noise.starts_with("eps=500") || epsilon > 3.0, "{noise}: {privacy}");
        assert!(!page.contains("contradicts"), "{noise}");
        let unit = privacy["remarks"][0].as_str().unwrap();
        assert_eq!(unit.starts_with("It is of a picture"), noise.contains("per=picture"), "{unit}");
    }
    let plan = ["--model", "vit_pico_patch4_16", "--defence", "gaussian:eps=8", "--updates", "0", "--canaries", "0"];
    assert!(report(&folder, &plan).0["privacy"]["tried"].is_null());
}

/// A folder of gradients: a ViT's embeddings by PyTorch, and a small ConvNet, of which only the label can be told.
#[test]
fn recorded_updates_are_attacked_or_said_to_be_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let received = folder.path().join("received");
    fs::create_dir(&received).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attack/tests/data/completion");
    fs::copy(committed.join("vit_nano_patch8_32-fresh-sgd-cat.safetensors"), received.join("cat.safetensors")).unwrap();
    let (hidden, bias) = ([0.5, 2.0, 1.0], [0.25_f32, -0.75, 0.5]);
    let head: Vec<f32> = bias.iter().flat_map(|bias| hidden.map(|value| value * bias)).collect();
    let convolution: Vec<f32> = (0..162).map(|i| (i as f32).sin()).collect();
    let tensors: [(&str, &[usize], &[f32]); 4] = [
        ("conv1.weight", &[6, 3, 3, 3], &convolution),
        ("conv1.bias", &[6], &convolution[..6]),
        ("fc3.weight", &[3, 3], &head),
        ("fc3.bias", &[3], &bias),
    ];
    fs::write(received.join("quickstart.safetensors"), encode(tensors).unwrap()).unwrap();
    let truth: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples/cat.png");
    let truth = truth.to_string_lossy();
    let (report, page) = report(&folder, &["received", "--truth", &truth]);
    let updates = report["updates"].as_array().unwrap();
    let attack =
        |name: &str, attack: usize| &updates.iter().find(|update| update["name"] == name).unwrap()["attacks"][attack];
    assert_eq!(attack("cat", 0)["is_recognisable"], true, "{}", attack("cat", 0));
    assert!(attack("quickstart", 0)["refusal"].is_string(), "{}", attack("quickstart", 0));
    assert_eq!(attack("quickstart", 1)["report"]["labels_read"], serde_json::json!([1]), "{}", attack("quickstart", 1));
    assert!(report["conclusion"].as_str().unwrap().starts_with("1 of 2 updates gave away"), "{}", report["conclusion"]);
    assert!(page.contains("Cannot tell, because"));
}

#[test]
fn what_cannot_be_audited_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = refusal(&folder, &[]);
    assert!(missing.contains("--model"), "{missing}");
    let unknown = refusal(&folder, &["--model", "vit_huge"]);
    assert!(unknown.contains("unknown model \"vit_huge\""), "{unknown}");
    let alone = refusal(&folder, &["--model", "vit_pico_patch4_16", "--cohort", "1", "--secagg"]);
    assert!(alone.contains("cohort of 2 or more"), "{alone}");
    let none = refusal(&folder, &["--model", "resnet_nano", "--defence", "encrypted"]);
    assert!(none.contains("resnet_nano has none"), "{none}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    let empty = refusal(&folder, &["empty"]);
    assert!(empty.contains("no updates in empty"), "{empty}");
    for (option, value) in [("--side", "20"), ("--mean", "0.4"), ("--heads", "3")] {
        let ignored = refusal(&folder, &["--model", "vit_pico_patch4_16", option, value]);
        assert!(ignored.contains(option), "{ignored}");
    }
    let huge = refusal(&folder, &["--model", "vit_pico_patch4_16", "--updates", "18446744073709551615"]);
    assert!(huge.contains("--updates"), "{huge}");
    let both = refusal(&folder, &["empty", "--model", "resnet_nano"]);
    assert!(both.contains("cannot be used with"), "{both}");
}
