//! Every experiment from request to files, at the tiny scale.

#[path = "../../../tests/support/schema.rs"]
mod schema;

use std::{fs, ops::ControlFlow, path::Path};

use maud::html;
use serde_json::Value;
use tempfile::TempDir;
use unmask_core::{Architecture, Defence, ModelStage, TradeOffCurve};
use unmask_experiments::{
    Claim, ExperimentError, ExperimentEvent, ExperimentRequest, Reproduced, Scale, estimate, reproduce, tally, verdict,
};
use unmask_model::{device::OpenDevice, weights::encode_flat};

fn request<'a>(experiment: &str, out: &Path, device: &'a OpenDevice) -> ExperimentRequest<'a> {
    ExperimentRequest {
        experiment: experiment.parse().unwrap(),
        scale: Scale::Tiny,
        seed: 1,
        seeds: None,
        out: out.to_owned(),
        cifar10: out.join("nowhere"),
        weights: None,
        device,
        threads: None,
        commit: None,
    }
}

fn finish(request: &ExperimentRequest<'_>) -> Reproduced {
    reproduce(request, &mut |_| ControlFlow::Continue(())).unwrap().unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The page has the verdict that follows from the claims and has figures, and loads nothing. Returns the folder of all
/// reports.
fn check(experiment: &str, cases: usize) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    let device = OpenDevice::cpu();
    let request = request(experiment, out.path(), &device);
    let experiment = request.experiment;
    let Reproduced { folder, claims } = finish(&request);
    assert!(!claims.is_empty(), "{experiment}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains(&html! { (tally(&claims)) }.into_string()), "{experiment}\n{page}");
    for Claim { expected, criterion, found, .. } in &claims {
        for text in [expected, criterion, found] {
            assert!(page.contains(&html! { (text) }.into_string()), "{experiment}: {text}\n{page}");
        }
    }
    assert!(page.contains("<svg") && page.contains(experiment.repeats()), "{experiment}");
    assert!(!page.contains("src=") && !page.contains("href="), "{experiment}: nothing is loaded from elsewhere");
    let run = json(&folder.join("run.json"));
    assert_eq!(run["provenance"]["experiment"], experiment.name());
    assert_eq!(run["provenance"]["seed"], 1);
    assert_eq!(run["verdict"], verdict(&claims));
    let results = json(&folder.join("results.json"));
    let recorded = serde_json::from_value::<Vec<Claim>>(results["claims"].clone()).unwrap();
    assert_eq!(recorded, claims, "{experiment}");
    schema::assert_conforms(&run, "reproduce-run");
    schema::assert_conforms(&results, "reproduce-results");
    let csv = fs::read_to_string(folder.join("results.csv")).unwrap();
    assert!(csv.lines().count() > cases, "{experiment}: {csv}");
    let index = fs::read_to_string(out.path().join("README.md")).unwrap();
    assert!(index.contains(&format!("({experiment}/report.html)")), "{index}");
    out
}

#[test]
fn vit_fine_tuned() {
    check("vit-fine-tuned", 10);
}

#[test]
fn vit_from_scratch() {
    check("vit-from-scratch", 10);
}

#[test]
fn resnet_fedsgd() {
    check("resnet-fedsgd", 7);
}

#[test]
fn resnet_fedavg() {
    check("resnet-fedavg", 7);
}

#[test]
fn non_iid() {
    check("non-iid", 14);
}

#[test]
fn attacks_cnn() {
    check("attacks-cnn", 10);
}

#[test]
fn attacks_vit() {
    check("attacks-vit", 9);
}

#[test]
fn update_ratios() {
    check("update-ratios", 8);
}

#[test]
fn encrypted() {
    check("encrypted", 2);
}

/// The curve has a point for each defence, each with its best attacker.
#[test]
fn trade_off() {
    let out = check("trade-off", 10);
    let curve = json(&out.path().join("trade-off/trade-off.json"));
    schema::assert_conforms(&curve, "trade-off");
    let TradeOffCurve { provenance, setup, points, .. } = serde_json::from_value(curve).unwrap();
    assert_eq!(provenance.command, "unmask reproduce trade-off --scale tiny --seed 1 --out reports");
    assert_eq!((setup.model.as_str(), setup.photographs), ("vit_pico_patch4_16", 2));
    let rates: Vec<f64> = points.iter().filter_map(|point| point.rate).collect();
    assert_eq!((points.len(), rates), (10, vec![0.2, 0.5, 0.7, 0.8, 0.9, 0.95]));
    for point in &points {
        let means: Vec<f64> = point.attackers.iter().map(|attacker| attacker.ssim.mean).collect();
        assert!(means.is_sorted_by(|a, b| a >= b) && !means.is_empty(), "{point:?}");
        assert_eq!(point.ssim.map(|ssim| ssim.mean), means.first().copied());
        assert_eq!(point.seeds, [1, 2]);
        let has = |name: &str| point.attackers.iter().any(|attacker| attacker.attacker.name() == name);
        match point.defence {
            Defence::None => assert!(means[0] > 0.99 && !has("rounds"), "{point:?}"),
            Defence::FixedPosition => assert!(has("jigsaw") && !has("embedding"), "{point:?}"),
            // At higher rates, some attacks fail on such a small model.
            Defence::RandomBinary { .. } if point.rate.is_some_and(|rate| rate <= 0.5) => {
                assert!(has("embedding-aware") && has("rounds") && has("matching-aware"), "{point:?}");
            }
            _ => assert!(has("embedding"), "{point:?}"),
        }
        for stage in ModelStage::ALL {
            let is_search_alone = point.defence == Defence::FixedPosition && stage == ModelStage::Trained;
            assert_eq!(point.attackers.iter().any(|attacker| attacker.stage == stage), !is_search_alone, "{point:?}");
        }
    }
}

/// Cases finished before an interruption are not computed again, and have the same results.
#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let (out, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let device = OpenDevice::cpu();
    let cut = request("encrypted", out.path(), &device);
    let mut ended = 0;
    let stopped = reproduce(&cut, &mut |event| match event {
        ExperimentEvent::CaseFinished => {
            ended += 1;
            if ended == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    assert!(stopped.unwrap().is_none() && !out.path().join("encrypted/report.html").exists());
    let (mut all, mut left, mut begun) = (0, 0, 0);
    let resumed = reproduce(&cut, &mut |event| {
        match event {
            ExperimentEvent::Started { cases, left: to_do } => (all, left) = (cases, to_do),
            ExperimentEvent::CaseStarted { .. } => begun += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert_eq!((all, left, begun), (8, 6, 6));
    let resumed = resumed.unwrap().unwrap();
    assert_eq!(resumed.claims, finish(&request("encrypted", whole.path(), &device)).claims);
}

#[test]
fn what_is_missing_is_named() {
    let out = tempfile::tempdir().unwrap();
    let device = OpenDevice::cpu();
    let refusal = |request: ExperimentRequest<'_>| reproduce(&request, &mut |_| ControlFlow::Continue(())).unwrap_err();
    let small = ExperimentRequest { scale: Scale::Small, ..request("vit-from-scratch", out.path(), &device) };
    let error = refusal(small);
    assert!(error.is_input() && error.to_string().contains("nowhere with CIFAR-10 in it"), "{error}");
    let paper = ExperimentRequest { scale: Scale::Paper, ..request("vit-fine-tuned", out.path(), &device) };
    let error = refusal(paper);
    assert!(
        matches!(error, ExperimentError::NeedsWeights { .. }) && error.to_string().contains("--weights FILE"),
        "{error}"
    );
    let none = ExperimentRequest { seeds: Some(0), ..request("encrypted", out.path(), &device) };
    assert!(refusal(none).to_string().contains("--seeds 1"));
    let idle = ExperimentRequest { threads: Some(0), ..request("update-ratios", out.path(), &device) };
    assert!(refusal(idle).to_string().contains("--threads 1"));
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "what was refused leaves nothing behind");
}

/// Weights that cannot be used are refused before anything is measured or computed.
#[test]
fn weights_are_looked_at_first() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let device = OpenDevice::cpu();
    let pico = Architecture::named("vit_pico_patch4_16", 10).unwrap();
    let file = folder.path().join("pico.safetensors");
    fs::write(&file, encode_flat(&pico.layout(), &pico.initial(1).weights).unwrap()).unwrap();
    for (experiment, weights, expected) in [
        ("vit-fine-tuned", &file, "looks like a vit_pico_patch4_16, not like a vit_small_patch16_224"),
        ("vit-fine-tuned", &folder.path().join("nowhere.safetensors"), "nowhere.safetensors"),
        ("vit-from-scratch", &file, "vit-from-scratch has its own initial weights; leave --weights away"),
        ("attacks-vit", &file, "leave --weights away"),
    ] {
        let request = ExperimentRequest {
            scale: Scale::Paper,
            weights: Some(weights.clone()),
            ..request(experiment, out.path(), &device)
        };
        for error in
            [reproduce(&request, &mut |_| ControlFlow::Continue(())).unwrap_err(), estimate(&request).unwrap_err()]
        {
            assert!(error.is_input() && error.to_string().contains(expected), "{experiment}: {error}");
        }
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}
