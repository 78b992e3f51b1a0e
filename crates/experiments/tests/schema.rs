//! The committed reports, and those of a new matrix, conform to `docs/schema`.

#[path = "../../../tests/support/schema.rs"]
mod schema;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use schema::assert_conforms;
use serde_json::{Value, json};
use unmask_core::{MeanInterval, Rule, ThreatModel, TradeOffCurve, VitPreset};
use unmask_data::load_folder;
use unmask_experiments::{
    matrix::{MatrixRequest, MatrixSettings, run},
    overview,
};
use unmask_model::device::OpenDevice;
use unmask_simulation::Commit;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn committed_reports_conform() {
    let folders = fs::read_dir(repository().join("docs/reports")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    assert!(folders.len() >= 9, "{folders:?}");
    let (matrices, studies): (Vec<PathBuf>, Vec<PathBuf>) =
        folders.into_iter().partition(|folder| folder.ends_with("threats"));
    assert_eq!(matrices.len(), 1, "{matrices:?}");
    let matrix = json(&matrices[0].join("matrix.json"));
    assert_conforms(&matrix, "matrix");
    assert!(!matrix["run"]["commit"].as_str().unwrap().ends_with("-dirty"), "{}", matrix["run"]["commit"]);
    for folder in studies {
        assert_conforms(&json(&folder.join("run.json")), "reproduce-run");
        assert_conforms(&json(&folder.join("results.json")), "reproduce-results");
    }
}

/// The committed page of claims is what the program writes from the list of claims and the reports.
#[test]
fn the_committed_page_of_claims_is_what_the_program_writes() {
    let folder = repository().join("docs/reports");
    let committed = fs::read_to_string(folder.join("README.md")).unwrap();
    let written = overview(&folder).unwrap();
    assert!(committed == written, "`unmask reproduce --claims --out docs/reports` rewrites it; it is now\n{written}");
}

/// The trade-off curve included in the program conforms, and its provenance is complete.
#[test]
fn the_committed_trade_off_conforms() {
    let curve = json(&repository().join("assets/trade-off.json"));
    assert_conforms(&curve, "trade-off");
    let TradeOffCurve { provenance, points, .. } = serde_json::from_value(curve).unwrap();
    assert!(provenance.command.starts_with("unmask reproduce trade-off --scale small"), "{}", provenance.command);
    assert!(provenance.commit.is_some() && provenance.processor.is_some(), "{provenance:?}");
    for point in points {
        let spans = [Some(point.accuracy), point.ssim];
        let is_whole = |span: &MeanInterval| span.low <= span.mean && span.mean <= span.high;
        assert!(spans.iter().flatten().all(is_whole), "{point:?}");
        let best = point.attackers.first().map(|best| (best.attacker, best.stage, best.ssim));
        assert_eq!(best.map(|best| best.2), point.ssim);
        assert_eq!(best.map(|best| (best.0, best.1)), point.attacker.zip(point.stage));
    }
}

/// Every kind of row: pictures, a label, a member, and a verdict that cannot be told.
#[test]
fn a_matrix_conforms() {
    let samples = load_folder(&repository().join("www/samples")).unwrap();
    let settings = MatrixSettings {
        model: VitPreset::Pico.into(),
        attacks: ["embedding", "matching-aware", "jigsaw", "colluder", "label", "membership"]
            .map(|name| name.parse().unwrap())
            .to_vec(),
        defences: ["none", "random-binary:0.5", "encrypted"].map(|text| text.parse().unwrap()).to_vec(),
        seed: 1,
        seeds: 2,
        iterations: Some(3),
        step: None,
        rounds: 1,
        rate: 1e-5,
        rule: Rule::FedSgd,
        batch: 1,
        sum: 1,
        threats: vec![ThreatModel::Honest, ThreatModel::Fishing],
    };
    let folder = tempfile::tempdir().unwrap();
    let request = MatrixRequest {
        settings: &settings,
        pictures: &samples.pictures[..2],
        start: None,
        device: &OpenDevice::cpu(),
        threads: Some(2),
        commit: Some(Commit { sha: "abc".to_owned(), has_local_changes: true }),
        out: folder.path(),
    };
    run(&request, &mut |_| ControlFlow::Continue(())).unwrap();
    let matrix = json(&folder.path().join("matrix.json"));
    assert_conforms(&matrix, "matrix");
    assert_eq!((&matrix["run"]["commit"], &matrix["run"]["device"]), (&json!("abc-dirty"), &json!("CPU")));
    let has = |verdict: &str| matrix["rows"].as_array().unwrap().iter().any(|row| row["verdict"] == verdict);
    assert!(has("recognisable") && has("cannot-tell"));
}

/// Shows that the schemas can fail.
#[test]
#[should_panic(expected = "additionalProperties")]
fn a_field_that_nobody_described_is_noticed() {
    let mut report = json(&repository().join("docs/reports/encrypted/run.json"));
    report["provenance"]["weather"] = json!("fine");
    assert_conforms(&report, "reproduce-run");
}

#[test]
#[should_panic(expected = "because")]
fn a_verdict_that_cannot_be_told_has_a_reason() {
    let report = json!({
        "attack": "embedding", "model": "vit_pico_patch4_16", "april_block": false, "batch": 1, "hidden_share": 0.0, "notes": [],
        "verdict": "cannot-tell",
    });
    assert_conforms(&report, "report");
}
