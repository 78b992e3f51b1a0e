//! Whole matrices with real models, defences and searches.

use std::{fs, ops::ControlFlow, path::Path};

use tempfile::TempDir;
use unmask_core::{Architecture, ResnetPreset, Rule, ThreatModel, Verdict, VitPreset};
use unmask_data::{Picture, decode, load_folder, metrics};
use unmask_experiments::{
    ExperimentError,
    matrix::{MatrixEvent, MatrixMean, MatrixOutcome, MatrixRequest, MatrixRow, MatrixSettings, OnMatrixEvent, run},
};
use unmask_inversion::InferenceAttack;
use unmask_model::device::OpenDevice;

fn settings(model: impl Into<Architecture>, attacks: &str, defences: &str) -> MatrixSettings {
    MatrixSettings {
        model: model.into(),
        attacks: attacks.split(',').map(|name| name.parse().unwrap()).collect(),
        defences: defences.split(';').map(|text| text.parse().unwrap()).collect(),
        seed: 1,
        seeds: 1,
        iterations: Some(25),
        step: None,
        rounds: 1,
        rate: 1e-5,
        rule: Rule::FedSgd,
        batch: 1,
        sum: 1,
        threats: vec![ThreatModel::Honest],
    }
}

fn photographs(names: &[&str]) -> Vec<(String, Picture)> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    let folder = load_folder(&samples).unwrap();
    folder.pictures.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
}

fn compute(
    settings: &MatrixSettings,
    pictures: &[(String, Picture)],
    folder: &Path,
    on_event: OnMatrixEvent<'_>,
) -> Result<MatrixOutcome, ExperimentError> {
    compute_by(1, settings, pictures, folder, on_event)
}

fn compute_by(
    threads: usize,
    settings: &MatrixSettings,
    pictures: &[(String, Picture)],
    folder: &Path,
    on_event: OnMatrixEvent<'_>,
) -> Result<MatrixOutcome, ExperimentError> {
    let (device, threads) = (OpenDevice::cpu(), Some(threads));
    run(
        &MatrixRequest { settings, pictures, start: None, device: &device, threads, commit: None, out: folder },
        on_event,
    )
}

fn whole(settings: &MatrixSettings, pictures: &[(String, Picture)], folder: &Path) -> Vec<MatrixRow> {
    let MatrixOutcome { rows, planned } =
        compute(settings, pictures, folder, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(rows.len(), planned);
    rows
}

fn of<'a>(rows: &'a [MatrixRow], attack: &str, defence: &str) -> Vec<&'a MatrixRow> {
    let attack: InferenceAttack = attack.parse().unwrap();
    let found: Vec<&MatrixRow> =
        rows.iter().filter(|row| row.attack == attack && row.defence.to_string() == defence).collect();
    assert!(!found.is_empty(), "{attack} under {defence}");
    found
}

/// Every picture under this attack and defence has an SSIM within these bounds. Below the threshold, a search has
/// converged or says that it has not.
fn expect(rows: &[MatrixRow], attack: &str, defence: &str, bounds: std::ops::RangeInclusive<f64>) {
    for row in of(rows, attack, defence) {
        let ssim = row.ssim.unwrap_or_else(|| panic!("{attack} under {defence}: {:?}", row.reason));
        assert!(bounds.contains(&ssim), "{attack} under {defence}, {}: {ssim}", row.image);
        match &row.verdict {
            Verdict::Recognisable => assert!(ssim >= 0.5, "{row:?}"),
            Verdict::NotRecognisableByThisAttack => assert!(ssim < 0.5, "{row:?}"),
            Verdict::CannotTell(because) => {
                let is_search = row.attack.method().is_some_and(|method| method.is_search());
                assert!(ssim < 0.5 && is_search && because.contains("not converged"), "{row:?}");
            }
        }
    }
}

fn expect_cannot(rows: &[MatrixRow], attack: &str, defence: &str, says: &str) {
    for row in of(rows, attack, defence) {
        let because = row.verdict.because().unwrap_or_else(|| panic!("{row:?}"));
        assert!(because.contains(says) && row.ssim.is_none(), "{because}");
    }
}

/// The lesson in numbers: what each attacker sees of photographs under each defence.
#[test]
fn attacks_and_defences_on_photographs() {
    let folder = TempDir::new().unwrap();
    let settings = settings(
        VitPreset::Lab,
        "embedding,embedding-aware,matching,matching-aware,jigsaw,known-start,colluder",
        "none;random-binary:0.5;random-binary:pos=0,0.5;fixed-position;gaussian;encrypted;encrypted:keyed",
    );
    let rows = whole(&settings, &photographs(&["astronaut", "cat", "rocket"]), folder.path());
    assert_eq!(rows.len(), 7 * 7 * 3);

    let whole_position = "random-binary:pos=0,0.5";
    expect(&rows, "embedding", "none", 0.95..=1.0);
    expect(&rows, "embedding-aware", "none", 0.95..=1.0);
    expect(&rows, "embedding", "random-binary:0.5", -0.3..=0.3);
    expect(&rows, "embedding", "gaussian:eps=4,delta=1e-5,clip=0.5", -0.3..=0.3);
    expect(&rows, "embedding-aware", whole_position, 0.95..=1.0);
    expect(&rows, "matching-aware", whole_position, 0.9..=1.0);
    expect_cannot(&rows, "embedding", "fixed-position", "position embedding");
    expect_cannot(&rows, "matching-aware", "none", "this is matching");
    expect_cannot(&rows, "jigsaw", "random-binary:0.5", "sees more");
    // Measured 0.16, 0.19 and 0.09, after few steps.
    expect(&rows, "jigsaw", "fixed-position", 0.02..=0.35);
    let picture = |name: &str| decode(&fs::read(folder.path().join("pictures").join(name)).unwrap()).unwrap().to_hwc();
    for (number, row) in of(&rows, "jigsaw", "fixed-position").into_iter().enumerate() {
        let truth = picture(&format!("truth-{number:03}-0.png"));
        let [found, arranged] = row.pictures.as_slice() else { panic!("{row:?}") };
        let [found, arranged] = [found, arranged].map(|name| metrics::ssim(&picture(name), &truth, 32, 32).unwrap());
        assert!((arranged - row.ssim.unwrap()).abs() < 1e-3 && arranged > found, "{found} to {arranged}: {row:?}");
        assert!(row.reason.as_deref().unwrap().contains("best order"), "{row:?}");
    }

    expect(&rows, "embedding", "encrypted", -0.3..=0.3);
    expect(&rows, "known-start", "encrypted", 0.9..=1.0);
    expect(&rows, "colluder", "encrypted", 0.9..=1.0);
    expect_cannot(&rows, "matching", "encrypted", "cipher text");
    expect_cannot(&rows, "known-start", "encrypted:keyed", "never had the plain model");
    expect_cannot(&rows, "known-start", "none", "nothing is encrypted");
    expect(&rows, "colluder", "encrypted:keyed", 0.9..=1.0);

    let page = fs::read_to_string(folder.path().join("matrix.html")).unwrap();
    assert!(
        page.contains("astronaut") && page.contains("data:image/png;base64,") && !page.contains("not yet computed")
    );
    let table: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("matrix.json")).unwrap()).unwrap();
    assert_eq!(serde_json::from_value::<Vec<MatrixRow>>(table["rows"].clone()).unwrap(), rows);
    assert_eq!(table["run"]["settings"]["seed"], 1);
    assert_eq!(fs::read_to_string(folder.path().join("matrix.csv")).unwrap().lines().count(), 1 + rows.len());
    for row in &rows {
        for name in &row.pictures {
            let picture = decode(&fs::read(folder.path().join("pictures").join(name)).unwrap()).unwrap();
            assert_eq!(picture.width(), 32);
        }
    }
}

/// On a ResNet, labels can be read and a search makes progress from noise. Attacks that need embeddings say so.
#[test]
fn a_resnet_is_attacked_by_what_needs_no_embeddings() {
    let attacks =
        "embedding,april-aware,rounds,matching,jigsaw,inverting-gradients,inverting-gradients-aware,label,membership";
    let settings = settings(ResnetPreset::Nano, attacks, "none;random-binary:0.5");
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &photographs(&["cat"]), folder.path());
    for defence in ["none", "random-binary:0.5"] {
        for attack in ["embedding", "april-aware", "rounds", "matching", "jigsaw", "membership"] {
            expect_cannot(&rows, attack, defence, "resnet_nano is no Vision Transformer");
        }
        assert_eq!(of(&rows, "label", defence)[0].verdict, Verdict::Recognisable);
        expect(&rows, "inverting-gradients", defence, -0.3..=0.3);
    }
    expect_cannot(&rows, "inverting-gradients-aware", "none", "this is inverting-gradients");
    expect(&rows, "inverting-gradients-aware", "random-binary:0.5", -0.3..=0.3);
}

/// Attacks without a reconstruction: labels, and whether a given picture was in the update. Masks and a fixed position
/// hide neither; noise and encryption hide members.
#[test]
fn labels_and_members_show_without_a_picture() {
    let defences = ["none", "random-binary:0.2", "random-binary:0.5", "frozen-binary:0.5", "fixed-position"];
    let all = [&defences[..], &["gaussian", "encrypted"]].concat().join(";");
    let settings = settings(VitPreset::Pico, "label,membership", &all);
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &photographs(&["cat", "rocket"]), folder.path());
    for (attack, defence) in ["label", "membership"].iter().flat_map(|attack| defences.map(|defence| (attack, defence)))
    {
        for row in of(&rows, attack, defence) {
            assert_eq!((&row.verdict, row.ssim), (&Verdict::Recognisable, None), "{row:?}");
        }
    }
    expect_cannot(&rows, "membership", "gaussian:eps=4,delta=1e-5,clip=0.5", "noise");
    expect_cannot(&rows, "membership", "encrypted", "cipher text");
    let reason = of(&rows, "membership", "none")[0].reason.as_deref().unwrap();
    assert!(reason.starts_with("cat: was there") && reason.contains("rocket: was not there"), "{reason}");
}

/// The true picture explains its update, a masked guess does not, and noise hides even the true picture.
#[test]
fn every_picture_is_checked_by_its_own_gradient() {
    let folder = TempDir::new().unwrap();
    let settings = settings(VitPreset::Pico, "embedding,matching", "none;random-binary:0.5;gaussian;encrypted");
    let rows = whole(&settings, &photographs(&["cat"]), folder.path());
    let misfit = |attack: &str, defence: &str| of(&rows, attack, defence)[0].misfit;
    assert!(misfit("embedding", "none").unwrap() < 0.01);
    assert!(misfit("embedding", "random-binary:0.5").unwrap() > 0.1);
    assert!(misfit("embedding", "gaussian:eps=4,delta=1e-5,clip=0.5").unwrap() > 0.1);
    assert_eq!(misfit("embedding", "encrypted"), None, "without the key the model cannot be run");
    assert_eq!(of(&rows, "embedding", "random-binary:0.5")[0].verdict, Verdict::NotRecognisableByThisAttack);
    assert_eq!(of(&rows, "matching", "none")[0].verdict, Verdict::Recognisable);
}

/// Each seed has its own row, and the mean over seeds has an interval.
#[test]
fn seeds_are_rows_and_means_have_intervals() {
    let settings =
        MatrixSettings { seeds: 3, ..settings(VitPreset::Pico, "embedding-aware,label", "random-binary:0.5") };
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &photographs(&["cat", "coffee"]), folder.path());
    let seeds: Vec<u64> = rows.iter().map(|row| row.seed).collect();
    assert_eq!(seeds, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    let alone = MatrixSettings { seed: 3, seeds: 1, ..settings.clone() };
    let other = TempDir::new().unwrap();
    let alone = whole(&alone, &photographs(&["cat", "coffee"]), other.path());
    assert_eq!(
        without_seconds_and_names(&alone),
        without_seconds_and_names(&rows[8..]),
        "a seed is the same beside others"
    );
    let table: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("matrix.json")).unwrap()).unwrap();
    let means: Vec<MatrixMean> = serde_json::from_value(table["means"].clone()).unwrap();
    let ssim = means[0].ssim.unwrap();
    let found: Vec<f64> = rows.iter().filter_map(|row| row.ssim).collect();
    assert!((ssim.mean - found.iter().sum::<f64>() / 6.0).abs() < 1e-9 && ssim.seeds == 3, "{ssim:?}");
    assert!(ssim.half_width.unwrap() > 0.0);
    assert_eq!((means[1].recognisable, means[1].ssim), (6, None), "a label has no picture");
    let page = fs::read_to_string(folder.path().join("matrix.html")).unwrap();
    assert!(page.contains("3 seeds from 1 on") && page.contains("±"));
}

fn without_seconds_and_names(rows: &[MatrixRow]) -> Vec<MatrixRow> {
    without_seconds(rows).into_iter().map(|row| MatrixRow { pictures: Vec::new(), ..row }).collect()
}

/// The rows, and every byte of their pictures, do not depend on the number of threads.
#[test]
fn threads_change_nothing() {
    let settings = MatrixSettings {
        seeds: 2,
        ..settings(
            VitPreset::Pico,
            "embedding-aware,matching-aware,inverting-gradients,membership",
            "none;random-binary:0.5;gaussian;fixed-position",
        )
    };
    let pictures = photographs(&["cat", "coffee"]);
    let computed = [1, 2].map(|threads| {
        let folder = TempDir::new().unwrap();
        let mut done = Vec::new();
        let outcome = compute_by(threads, &settings, &pictures, folder.path(), &mut |event| {
            if let MatrixEvent::RowFinished { done: now } = event {
                done.push(now);
            }
            ControlFlow::Continue(())
        });
        assert!(done.is_sorted() && done.len() == 64, "{done:?}");
        let rows = without_seconds(&outcome.unwrap().rows);
        let names = rows.iter().flat_map(|row| row.pictures.clone());
        let files: Vec<Vec<u8>> =
            names.map(|name| fs::read(folder.path().join("pictures").join(name)).unwrap()).collect();
        (rows, files)
    });
    assert_eq!(computed[0].0, computed[1].0);
    assert!(computed[0].1 == computed[1].1, "pictures differ");
}

fn without_seconds(rows: &[MatrixRow]) -> Vec<MatrixRow> {
    rows.iter().map(|row| MatrixRow { seconds: 0.0, ..row.clone() }).collect()
}

/// A run that is interrupted during a search, and again between rows, ends with the same rows as an uninterrupted one.
#[test]
fn an_interrupted_run_goes_on_with_the_same_rows() {
    let settings = settings(
        VitPreset::Pico,
        "embedding-aware,matching-aware,inverting-gradients,label",
        "random-binary:0.5;fixed-position",
    );
    let pictures = photographs(&["cat", "coffee"]);
    let (at_once, in_pieces) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let expected = whole(&settings, &pictures, at_once.path());

    let (mut rows, mut steps) = (0, 0);
    let first = compute(&settings, &pictures, in_pieces.path(), &mut |event| {
        rows += usize::from(matches!(event, MatrixEvent::RowFinished { .. }));
        steps += usize::from(rows == 1 && matches!(event, MatrixEvent::Progress { .. }));
        if steps == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let first = first.unwrap();
    assert_eq!((first.rows.len(), first.planned), (1, 16), "the search that was cut off is no row");
    let page = fs::read_to_string(in_pieces.path().join("matrix.html")).unwrap();
    assert!(page.contains("1 of 16 rows are there"));

    let mut ended = 0;
    let second = compute(&settings, &pictures, in_pieces.path(), &mut |event| {
        ended += usize::from(matches!(event, MatrixEvent::RowFinished { .. }));
        if ended == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(second.unwrap().rows.len(), 5);

    let mut begun = Vec::new();
    let third = compute(&settings, &pictures, in_pieces.path(), &mut |event| {
        if let MatrixEvent::Started { rows, left, .. } = event {
            begun.push((rows, left));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(begun, [(16, 11)], "finished rows are not computed again");
    assert_eq!(without_seconds(&third.unwrap().rows), without_seconds(&expected));
    for row in &expected {
        for name in &row.pictures {
            let bytes = |folder: &TempDir| fs::read(folder.path().join("pictures").join(name)).unwrap();
            assert_eq!(bytes(&at_once), bytes(&in_pieces), "{name}");
        }
    }
}

/// A row does not depend on the other rows, but does depend on the seed.
#[test]
fn rows_follow_from_the_seed_alone() {
    let pictures = photographs(&["cat", "coffee"]);
    let row = |attacks: &str, defences: &str, pictures: &[(String, Picture)], seed| {
        let settings = MatrixSettings { seed, ..settings(VitPreset::Pico, attacks, defences) };
        let folder = TempDir::new().unwrap();
        let rows = whole(&settings, pictures, folder.path());
        let row = of(&rows, "embedding-aware", "random-binary:0.5").into_iter().find(|row| row.image == "cat");
        (row.unwrap().psnr, row.unwrap().ssim)
    };
    let together = row("label,embedding-aware", "none;random-binary:0.5", &pictures, 1);
    assert_eq!(row("embedding-aware", "random-binary:0.5", &pictures[..1], 1), together);
    assert_ne!(row("embedding-aware", "random-binary:0.5", &pictures[..1], 2), together);
}

/// A matrix can use given weights. Its rows belong to these weights, and a folder does not mix two sets.
#[test]
fn rows_are_of_the_weights_that_are_given() {
    let settings = settings(VitPreset::Pico, "embedding-aware", "random-binary:0.5");
    let pictures = photographs(&["cat"]);
    let device = OpenDevice::cpu();
    let [initial, other] = [1, 2].map(|seed| settings.model.initial(seed));
    let row = |start, folder: &TempDir| {
        let request = MatrixRequest {
            settings: &settings,
            pictures: &pictures,
            start,
            device: &device,
            threads: Some(1),
            commit: None,
            out: folder.path(),
        };
        run(&request, &mut |_| ControlFlow::Continue(())).map(|outcome| outcome.rows[0].ssim.unwrap())
    };
    let folders: [TempDir; 3] = std::array::from_fn(|_| TempDir::new().unwrap());
    let plain = row(None, &folders[0]).unwrap();
    assert_eq!(row(Some(&initial), &folders[1]).unwrap(), plain);
    assert_ne!(row(Some(&other), &folders[2]).unwrap(), plain);
    let mixed = row(Some(&initial), &folders[2]).unwrap_err();
    assert!(matches!(mixed, ExperimentError::OtherRun { .. }), "{mixed}");
    let page = fs::read_to_string(folders[2].path().join("matrix.html")).unwrap();
    assert!(page.contains("at weights of its own"), "{page}");
}

/// Half of an update is enough for every photograph, including dark ones. For bright ones three tenths are enough.
#[test]
fn rank_undoes_the_masks_on_every_sample() {
    let names = ["astronaut", "cameraman", "cat", "coffee", "hubble", "rocket"];
    for (defence, names) in [("random-binary:0.5", names.as_slice()), ("random-binary:0.7", &["astronaut", "coffee"])] {
        let settings = settings(VitPreset::NanoPatch8, "completion", defence);
        let folder = TempDir::new().unwrap();
        let rows = whole(&settings, &photographs(names), folder.path());
        assert_eq!(rows.len(), names.len());
        for row in rows {
            assert!(row.psnr.is_some_and(|psnr| psnr >= 80.0), "{defence}, {}: {:?}", row.image, row.psnr);
        }
    }
}

/// Several rounds with new masks reveal what one does not, also if clients send weights instead of gradients.
#[test]
fn rounds_and_federated_averaging() {
    // A larger model takes a minute for this.
    let mut settings = settings(VitPreset::Pico, "embedding,embedding-aware,rounds", "none;random-binary:0.3");
    settings.rounds = 5;
    let pictures = photographs(&["cat"]);
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &pictures, folder.path());
    expect(&rows, "rounds", "random-binary:0.3", 0.8..=1.0);
    let one = of(&rows, "embedding-aware", "random-binary:0.3")[0].ssim.unwrap();
    assert!(one < 0.7, "one round: {one}");
    assert!(of(&rows, "rounds", "random-binary:0.3")[0].reason.as_deref().unwrap().contains("5 of 5 rounds"));

    settings.rule = Rule::FedAvg { epochs: 1, rate: 0.01 };
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &pictures, folder.path());
    expect(&rows, "embedding", "none", 0.95..=1.0);
    expect(&rows, "embedding", "random-binary:0.3", -0.3..=0.3);
}

/// The pictures of one update are one row, and a closed form sees their mixture.
#[test]
fn batches_are_rows_of_their_own() {
    let mut settings = settings(VitPreset::Pico, "embedding,matching,label", "none");
    settings.batch = 2;
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &photographs(&["cat", "coffee", "rocket", "astronaut"]), folder.path());
    assert_eq!(rows.len(), 2 * 3);
    let mixture = of(&rows, "embedding", "none")[0];
    assert_eq!(mixture.image, "astronaut+cat");
    assert!(mixture.reason.as_deref().unwrap().contains("2 pictures are mixed"), "{mixture:?}");
    assert_eq!(of(&rows, "matching", "none")[0].pictures.len(), 2);
}

#[test]
fn other_arguments_need_another_folder() {
    let pictures = photographs(&["cat"]);
    let one = settings(VitPreset::Pico, "label", "none");
    let folder = TempDir::new().unwrap();
    whole(&one, &pictures, folder.path());
    let refusal = |settings: &MatrixSettings| {
        compute(settings, &pictures, folder.path(), &mut |_| ControlFlow::Continue(())).unwrap_err()
    };
    let error = refusal(&MatrixSettings { seed: 2, ..one.clone() });
    assert!(error.is_input() && error.to_string().contains("settings.seed was 1 and is now 2"), "{error}");
    let error = refusal(&MatrixSettings { attacks: Vec::new(), ..one.clone() });
    assert!(error.to_string().contains("at least one attack"), "{error}");
    let diverging = MatrixSettings { rule: Rule::FedAvg { epochs: 50, rate: 1e20 }, ..one };
    let empty = TempDir::new().unwrap();
    let error = compute(&diverging, &pictures, empty.path(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().starts_with("the client could not train"), "{error}");
}

/// A relay that chooses the weights reads one picture through a batch, a sum, a mask and local training; an honest one
/// does not. The numbers are those of a batch of four.
#[test]
fn doctored_weights_undo_batches_and_sums() {
    let names = ["astronaut", "cat", "coffee", "rocket"];
    let pictures = photographs(&names);
    assert_eq!(pictures.len(), 4);
    let every = |threats: &[ThreatModel], batch, sum, rule: &str| {
        let settings = MatrixSettings {
            batch,
            sum,
            rule: rule.parse().unwrap(),
            threats: threats.to_vec(),
            ..settings(VitPreset::Nano, "embedding", "none")
        };
        let folder = TempDir::new().unwrap();
        let rows = whole(&settings, &pictures, folder.path());
        assert!(fs::read_to_string(folder.path().join("matrix.html")).unwrap().contains("Fishing for a class"));
        rows.into_iter().map(|row| (row.threat, row.psnr.unwrap_or(0.0))).collect::<Vec<_>>()
    };
    let all = ThreatModel::ALL;
    for (batch, sum, rule, least) in [
        (4, 1, "fedsgd", 60.0),
        (1, 4, "fedsgd", 60.0),
        (2, 2, "fedsgd", 60.0),
        (4, 1, "fedavg:epochs=1,rate=0.1", 25.0),
    ] {
        for (threat, psnr) in every(&all[..3], batch, sum, rule) {
            let is_seen = psnr > least;
            assert_eq!(is_seen, !threat.is_honest(), "{threat}, batch {batch}, sum {sum}, {rule}: {psnr} dB");
        }
    }
    let others = [ThreatModel::Honest, ThreatModel::Fishing, ThreatModel::InconsistentModels];
    for (threat, psnr) in every(&others, 1, 4, "fedsgd") {
        assert_eq!(psnr > 60.0, !threat.is_honest(), "{threat} in a sum: {psnr} dB");
    }
}

/// Behind a mask the aware attacker completes what the victim's mask kept, however many clients hide it in their sum.
#[test]
fn doctored_weights_undo_masks_as_far_as_completion_does() {
    let pictures = photographs(&["astronaut", "cat", "coffee", "rocket"]);
    for (batch, sum, threat) in [(4, 1, "fishing"), (1, 4, "fishing"), (1, 4, "inconsistent-models")] {
        let settings = MatrixSettings {
            batch,
            sum,
            threats: vec![ThreatModel::Honest, threat.parse().unwrap()],
            ..settings(VitPreset::LabPatch8, "completion", "random-binary:0.5")
        };
        let folder = TempDir::new().unwrap();
        let rows = whole(&settings, &pictures, folder.path());
        let [honest, dishonest] = rows.as_slice() else { panic!("{rows:?}") };
        assert!(honest.ssim.unwrap_or(0.0) < 0.5, "{honest:?}");
        assert_eq!(dishonest.verdict, Verdict::Recognisable, "{dishonest:?}");
        assert!(dishonest.psnr.unwrap() > 60.0, "{dishonest:?}");
    }
}

/// A class that fills the batch hides its pictures from a head, not from a gate.
#[test]
fn a_feature_tells_pictures_of_one_class_apart() {
    let pictures = photographs(&["astronaut", "cat", "coffee", "rocket"]).into_iter().enumerate();
    let pictures: Vec<_> = pictures.map(|(number, (_, picture))| (format!("dog {number}"), picture)).collect();
    let settings = MatrixSettings {
        batch: 4,
        threats: vec![ThreatModel::Fishing, ThreatModel::FeatureFishing],
        ..settings(VitPreset::Nano, "embedding", "none")
    };
    let folder = TempDir::new().unwrap();
    let rows = whole(&settings, &pictures, folder.path());
    let [class, feature] = rows.as_slice() else { panic!("{rows:?}") };
    assert!(class.psnr.unwrap() < 20.0, "{class:?}");
    assert!(feature.psnr.unwrap() > 50.0, "{feature:?}");
}
