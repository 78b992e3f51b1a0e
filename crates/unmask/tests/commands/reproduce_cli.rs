//! `unmask reproduce` as a user runs it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn reproduce(arguments: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unmask"))
        .arg("reproduce")
        .args(arguments)
        .arg("--out")
        .arg(out)
        .current_dir(out)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_list_says_which_figure_each_experiment_repeats() {
    let out = tempfile::tempdir().unwrap();
    let list = text(&reproduce(&["--list"], out.path()).stdout);
    assert_eq!(list.lines().count(), 10, "{list}");
    for part in ["vit-fine-tuned", "RBW Fig. 5", "update-ratios", "FLRSP Fig. 13", "Encrypted ViT Table I"] {
        assert!(list.contains(part), "{part}: {list}");
    }
}

#[test]
fn an_experiment_ends_with_its_verdict_and_where_its_page_is() {
    let out = tempfile::tempdir().unwrap();
    let ran = reproduce(&["update-ratios", "--scale", "tiny"], out.path());
    let (said, heard) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{heard}");
    assert!(said.starts_with("update-ratios: the papers' claims: ") && said.contains(" confirmed, "), "{said}");
    assert!(heard.starts_with("update-ratios: trainings of vit_pico_patch4_16 on generated with 3 clients"), "{heard}");
    assert!(heard.contains("10 cases; finished cases are kept in ") && heard.contains("case 1 of 10"), "{heard}");
    let page = out.path().join("update-ratios").join("report.html");
    assert!(said.trim_end().ends_with(&page.display().to_string()) && page.is_file(), "{said}");
}

/// Every claim is on the page, with or without a report; existing reports count.
#[test]
fn the_page_of_all_claims_is_written_without_a_run() {
    let out = tempfile::tempdir().unwrap();
    let wrote = reproduce(&["--claims"], out.path());
    let path = out.path().join("README.md");
    assert_eq!(text(&wrote.stdout).trim_end(), path.display().to_string());
    let page = fs::read_to_string(path).unwrap();
    for part in ["## What holds", "Nothing yet.", "- update-ratios was not run: ", "`unmask reproduce update-ratios`"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let both = reproduce(&["--claims", "encrypted"], out.path());
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}

#[test]
fn what_cannot_work_is_said_in_one_line() {
    let out = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (&["vit"][..], "unknown experiment \"vit\"; the experiments are vit-fine-tuned"),
        (&["vit"], "encrypted, trade-off, and all for every one of them"),
        (&[], "as in `unmask reproduce encrypted`, or all"),
        (&["encrypted", "--estimate", "--scale", "small"], "--estimate measures what --scale paper takes"),
        (&["encrypted", "--weights", "nowhere.safetensors"], "nowhere.safetensors"),
        (&["vit-fine-tuned", "--scale", "paper", "--weights", "nowhere.safetensors"], "nowhere.safetensors"),
        (&["vit-fine-tuned", "--scale", "paper"], "--weights FILE"),
        (&["resnet-fedsgd", "--weights", "nowhere.safetensors"], "leave --weights away"),
        (&["encrypted", "--device", "tpu"], "unknown device \"tpu\"; the devices are cpu and gpu"),
        (&["vit-from-scratch", "--cifar10", "nowhere"], "there is no folder nowhere with CIFAR-10 in it"),
        (&["encrypted", "--scale", "tiny", "--seeds", "0"], "--seeds 1"),
        (&["update-ratios", "--scale", "tiny", "--threads", "0"], "--threads 1"),
    ] {
        let ran = reproduce(arguments, out.path());
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("unmask: ") && last.contains(part), "{arguments:?}: {said}");
        assert!(!said.contains("trainings of"), "refused before any other output: {said}");
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "a refused run leaves nothing behind");
    let scale = text(&reproduce(&["encrypted", "--scale", "huge"], out.path()).stderr);
    assert!(scale.contains("the scales are quick, small and paper") && !scale.contains("tiny"), "{scale}");
}
