//! Runs with files: their contents, and that a run can be interrupted at any point.

use std::{fs, ops::ControlFlow, path::Path};

use unmask_core::{Architecture, ParamLayout, VitConfig, VitPreset};
use unmask_model::{
    device::OpenDevice,
    weights::{self, Storage, TensorReader},
};
use unmask_simulation::{Files, RunEvent, RunOutcome, TrainError, train};

use super::common::{COLOURS, colours, config};

fn run(out: &Path, resume: bool, overrides: &[&str], stop: Option<u32>) -> Result<RunOutcome, TrainError> {
    let files = Files { out: out.to_owned(), resume, write_order: false, storage: Storage::F32, commit: None };
    train(&config(overrides), &COLOURS, &OpenDevice::cpu(), &files, &mut |event| match event {
        RunEvent::Round(metrics) if Some(metrics.round) == stop => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
}

fn metrics(out: &Path) -> Vec<String> {
    let text = fs::read_to_string(out.join("metrics.csv")).unwrap();
    text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_owned()).collect()
}

fn refused(outcome: Result<RunOutcome, TrainError>) -> String {
    let error = outcome.unwrap_err();
    assert!(error.is_input(), "{error}");
    error.to_string()
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one_bit_for_bit() {
    for overrides in [
        &["rounds=6", "defence=random-binary:0.5", "schedule=cosine:warmup=2", "augment=true"][..],
        &["rounds=6", "defence=encrypted", "passphrase=violet otter", "optimiser=sgd:0.1"],
        &["rounds=4", "model=resnet_nano", "clients=1"],
        &["rounds=4", "model=resnet_nano", "clients=2", "train-slice=0..12", "rule=fedavg:epochs=1,rate=0.05"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        let uninterrupted = run(&whole, false, overrides, None).unwrap();
        assert!(uninterrupted.finished);
        let first = run(&parts, false, overrides, Some(3)).unwrap();
        assert!(!first.finished);
        let second = run(&parts, true, overrides, None).unwrap();
        assert!(second.finished);
        assert_eq!(
            fs::read(whole.join("model.safetensors")).unwrap(),
            fs::read(parts.join("model.safetensors")).unwrap(),
            "{overrides:?}"
        );
        assert_eq!(metrics(&whole), metrics(&parts));
        assert_eq!(uninterrupted.update_counts.counts(), second.update_counts.counts());
        assert_eq!(uninterrupted.update_counts.groups(), second.update_counts.groups());
        assert!(second.seconds > first.seconds);
    }
}

#[test]
fn a_broken_checkpoint_costs_some_rounds_and_not_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    run(&whole, false, &["rounds=6"], None).unwrap();
    run(&parts, false, &["rounds=6"], Some(5)).unwrap();
    let newest = parts.join("checkpoints/round-00000005.ckpt");
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    let mut resumed = None;
    let files = Files { out: parts.clone(), resume: true, write_order: false, storage: Storage::F32, commit: None };
    train(&config(&["rounds=6"]), &COLOURS, &OpenDevice::cpu(), &files, &mut |event| {
        if let RunEvent::Resumed { round, problems } = event {
            resumed = Some((round, problems.to_vec()));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let (round, problems) = resumed.unwrap();
    assert_eq!((round, problems.len()), (4, 1));
    assert!(problems[0].contains("round-00000005.ckpt: its checksum is wrong"), "{problems:?}");
    assert_eq!(fs::read(whole.join("model.safetensors")).unwrap(), fs::read(parts.join("model.safetensors")).unwrap());
    assert_eq!(metrics(&whole), metrics(&parts));
}

#[test]
fn another_config_or_other_pictures_are_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    assert!(refused(run(out, true, &[], None)).contains("holds no checkpoint to go on from; leave out --resume"));
    refused(run(&out.join("nothere"), true, &[], None));
    assert!(!out.join("nothere").exists(), "a run that cannot go on leaves no folder");
    run(out, false, &["rounds=3"], Some(2)).unwrap();
    let taken = refused(run(out, false, &["rounds=3"], None));
    assert!(taken.contains("already holds a run; continue it with --resume, or give another --out"), "{taken}");
    for (overrides, expected) in [
        (["batch=5"], "the checkpoint was made with batch = 4, now it is 5; set batch back"),
        (["defence=random-binary:0.5"], "with defence = \"none\", now it is \"random-binary:0.5\""),
        (["optimiser=adam:0.002"], "with optimiser = \"adam:0.001\", now it is \"adam:0.002\""),
        (["train-slice=0..90"], "with train-slice = its default, now it is \"0..90\""),
    ] {
        let error = refused(run(out, true, &[&overrides[..], &["rounds=3"]].concat(), None));
        assert!(error.contains(expected), "{error}");
    }
    let other = colours(93, 30);
    let files = Files { out: out.to_owned(), resume: true, write_order: false, storage: Storage::F32, commit: None };
    let error = train(&config(&["rounds=3"]), &other, &OpenDevice::cpu(), &files, &mut |_| ControlFlow::Continue(()));
    assert!(refused(error).contains("made on other training pictures"));
    // Keys that do not affect the weights may change, and a run at a constant rate may be extended.
    let longer = run(out, true, &["rounds=5", "threads=1", "evaluate-every=1", "checkpoint-every=0"], None).unwrap();
    assert!(longer.finished);
    assert_eq!(longer.metrics.last().unwrap().round, 5);
}

#[test]
fn another_passphrase_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let with = |passphrase| ["defence=encrypted", "optimiser=sgd:0.1", passphrase];
    run(folder.path(), false, &with("passphrase=violet otter"), Some(2)).unwrap();
    let error = refused(run(folder.path(), true, &with("passphrase=violet otters"), None));
    assert!(error.contains("another passphrase"), "{error}");
    for file in fs::read_dir(folder.path().join("checkpoints")).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(bytes.windows(6).all(|window| window != b"violet"));
    }
    let record = fs::read_to_string(folder.path().join("run.json")).unwrap();
    assert!(!record.contains("violet") && record.contains("\"defence\": \"encrypted\""), "{record}");
}

#[test]
fn files_say_what_was_run_and_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/run");
    let files = Files { out: out.clone(), resume: false, write_order: true, storage: Storage::F16, commit: None };
    let config = config(&["rounds=4", "seed=9", "clients=2", "batch=3"]);
    let outcome = train(&config, &COLOURS, &OpenDevice::cpu(), &files, &mut |_| ControlFlow::Continue(())).unwrap();

    let record: serde_json::Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    assert_eq!((&record["seed"], &record["rounds_done"]), (&9.into(), &4.into()));
    assert_eq!((&record["device"], &record["config"]["batch"]), (&"CPU".into(), &3.into()));
    assert_eq!(record["test_accuracy"].as_f64(), outcome.metrics[4].test_accuracy);
    assert!(record["finished"].as_str().unwrap().ends_with('Z') && record["seconds"].as_f64().unwrap() > 0.0);

    let lines = metrics(&out);
    assert_eq!((lines.len(), lines[0].as_str()), (6, "round,epoch,loss,rate,test_accuracy,test_loss"));
    for name in ["loss.svg", "accuracy.svg"] {
        assert!(fs::read_to_string(out.join(name)).unwrap().contains("<polyline"), "{name}");
    }
    let order = fs::read_to_string(out.join("order.csv")).unwrap();
    assert_eq!(order.lines().count(), 1 + 4 * 2 * 3);
    assert!(order.starts_with("round,client,position,picture\n1,0,0,"), "{order}");

    let layout = Architecture::named("vit_pico_patch4_16", 10).unwrap().layout();
    let read = |name| TensorReader::open(&out.join(name)).unwrap().read_flat::<f32>(&layout).unwrap();
    let stored = read("model.safetensors");
    assert!(
        stored.iter().zip(&outcome.state.weights).all(|(half, full)| (half - full).abs() <= 1e-3 * full.abs() + 1e-6)
    );
    assert_ne!(stored, outcome.state.weights);
    assert!(fs::metadata(out.join("model.safetensors")).unwrap().len() < 2 * layout.len() as u64 + 10_000);
    assert_ne!(read("start.safetensors"), stored);
}

/// Training continues from a stored model: the first test equals the stored model's last.
#[test]
fn a_run_begins_with_the_weights_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["vit_pico_patch4_16", "resnet_nano"] {
        let (first, second) = (folder.path().join(model), folder.path().join(format!("{model}-2")));
        let model = format!("model={model}");
        let before = run(&first, false, &["rounds=8", "optimiser=adam:0.01", "clients=2", &model], None).unwrap();
        let start = format!("start={}", first.join("model.safetensors").display());
        let after = run(&second, false, &["rounds=1", "clients=2", &model, &start], None).unwrap();
        assert_eq!(after.metrics[0].test_loss, before.last_test().unwrap().test_loss);
    }
}

#[test]
fn weights_of_another_model_are_called_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let nano = Architecture::named("vit_nano_patch4_32", 10).unwrap();
    let file = folder.path().join("nano.safetensors");
    fs::write(&file, weights::encode_flat(&nano.layout(), &nano.initial(1).weights).unwrap()).unwrap();
    let start = format!("start={}", file.display());
    let error = refused(run(&folder.path().join("out"), false, &[&start], None));
    assert!(
        error.contains("nano.safetensors looks like a vit_nano_patch4_32, not like a vit_pico_patch4_16"),
        "{error}"
    );
    // For an unknown model, the error names a few tensors.
    let layout = ParamLayout::vit(&VitConfig { dim: 60, ..VitConfig::from(VitPreset::Pico) });
    fs::write(&file, weights::encode_flat(&layout, &vec![0.5; layout.len()]).unwrap()).unwrap();
    let error = refused(run(&folder.path().join("out"), false, &[&start], None));
    assert!(error.contains("cls_token has shape [1, 1, 60], expected [1, 1, 48]; ") && error.len() < 700, "{error}");
    assert!(error.ends_with(" more"), "{error}");
}

#[test]
fn weights_with_nan_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let architecture = Architecture::named("vit_pico_patch4_16", 10).unwrap();
    let mut state = architecture.initial(1);
    state.weights[architecture.layout().get("norm.weight").unwrap().range.start + 3] = f32::NAN;
    let file = folder.path().join("nan.safetensors");
    fs::write(&file, weights::encode_flat(&architecture.layout(), &state.weights).unwrap()).unwrap();
    let start = format!("start={}", file.display());
    let error = refused(run(&folder.path().join("out"), false, &[&start], None));
    assert!(error.contains("norm.weight [48] holds NaN at value 3"), "{error}");
    assert!(!folder.path().join("out").exists(), "a run that cannot begin leaves no folder");
}
