//! Merges the parts of a run into one run.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::ExperimentError,
    matrix,
    parts::{MergedRun, PART, Part, PartRecord, RunKind},
    reproduce,
    request::RunRecord,
    store::{Difference, LOCK, RUN, at, damaged, difference, read, write},
    sweep,
};

/// How deep to search for parts below a given folder: the folder of all parts, of a part, of an experiment.
const DEPTH: usize = 2;

#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// Pages of the complete runs.
    pub pages: Vec<PathBuf>,
    /// Missing parts of the incomplete runs.
    pub missing: Vec<MissingPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPart {
    pub part: Part,
    /// Number of missing cases, out of `cases`.
    pub missing: usize,
    pub cases: usize,
    /// The arguments after the program's name that compute them.
    pub command: Vec<String>,
}

/// Copies the cases of all parts to `out` and writes the report of each complete run, as if one machine had computed
/// it. Each of `folders` is a part, or contains parts. An incomplete run writes nothing.
///
/// # Errors
/// [`ExperimentError`]: a folder has no part, parts have different builds or settings, two parts have different results
/// for a case, or a file cannot be read or written.
pub fn merge(folders: &[PathBuf], out: &Path) -> Result<Merged, ExperimentError> {
    let mut runs: BTreeMap<(RunKind, PathBuf), Vec<Found>> = BTreeMap::new();
    for folder in folders {
        let mut found = Vec::new();
        if folder.is_dir() {
            find(folder, DEPTH, &mut found)?;
        }
        if found.is_empty() {
            return Err(ExperimentError::NoPart { folder: folder.clone() });
        }
        for part in found {
            let parts = runs.entry((part.record.kind, part.inner()?)).or_default();
            // A folder that is given twice, or inside another, counts once.
            if !parts.iter().any(|known| known.folder == part.folder) {
                parts.push(part);
            }
        }
    }
    let mut merged = Merged { pages: Vec::new(), missing: Vec::new() };
    for ((kind, inner), parts) in runs {
        let [first, others @ ..] = &parts[..] else { continue };
        if let Some((other, Difference { place, held, wanted })) =
            others.iter().find_map(|other| Some((other, first.record.difference(&other.record)?)))
        {
            return Err(ExperimentError::OtherParts {
                one: first.folder.clone(),
                other: other.folder.clone(),
                difference: format!("{place} is {held} in the first and {wanted} in the second"),
            });
        }
        let missing = missing(&first.record, &parts);
        if missing.is_empty() {
            let folder = out.join(inner);
            collect(&first.record, &parts, &folder)?;
            let machines = parts.iter().map(|part| part.record.machine.clone()).collect();
            merged.pages.push(report(kind, &MergedRun::new(&folder, &first.record.run, machines))?);
        }
        merged.missing.extend(missing);
    }
    Ok(merged)
}

fn report(kind: RunKind, run: &MergedRun<'_>) -> Result<PathBuf, ExperimentError> {
    match kind {
        RunKind::Matrix => matrix::report(run),
        RunKind::Sweep => sweep::report(run),
        RunKind::Reproduce => reproduce::report(run),
    }
}

#[derive(Debug)]
struct Found {
    folder: PathBuf,
    record: PartRecord,
}

impl Found {
    /// Subfolder of the whole run for its cases: an experiment has its own folder.
    fn inner(&self) -> Result<PathBuf, ExperimentError> {
        match self.record.kind {
            RunKind::Matrix | RunKind::Sweep => Ok(PathBuf::new()),
            RunKind::Reproduce => {
                let run = RunRecord::deserialize(&self.record.run).map_err(damaged(&self.folder.join(PART)))?;
                Ok(run.settings.experiment.name().into())
            }
        }
    }
}

/// Finds the parts in a folder and below it, ordered by path.
fn find(folder: &Path, depth: usize, found: &mut Vec<Found>) -> Result<(), ExperimentError> {
    let path = folder.join(PART);
    if let Some(bytes) = read(&path)? {
        let record = serde_json::from_slice(&bytes).map_err(damaged(&path))?;
        found.push(Found { folder: folder.to_owned(), record });
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    for inner in entries(folder)? {
        if inner.is_dir() {
            find(&inner, depth - 1, found)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ExperimentError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(at(folder))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    Ok(paths)
}

fn missing(record: &PartRecord, parts: &[Found]) -> Vec<MissingPart> {
    let of = record.part.of();
    let mut by_part: BTreeMap<Part, (usize, usize)> = BTreeMap::new();
    for (position, case) in record.cases.iter().enumerate() {
        let (missing, cases) = by_part.entry(Part::of_case(position, of)).or_default();
        *cases += 1;
        *missing += usize::from(!parts.iter().any(|part| part.folder.join(case).is_file()));
    }
    let lacks = by_part.into_iter().filter(|(_, (missing, _))| *missing > 0);
    let command = |part: Part| {
        // If the part was started, its own command has the right paths.
        let own = parts.iter().find(|found| found.record.part == part).map_or(record, |found| &found.record);
        [&own.command[..], &["--part".to_owned(), part.to_string()]].concat()
    };
    lacks.map(|(part, (missing, cases))| MissingPart { part, missing, cases, command: command(part) }).collect()
}

/// Copies the files of all parts to `out`. If two parts have a case, their results must agree and the first is copied.
fn collect(record: &PartRecord, parts: &[Found], out: &Path) -> Result<(), ExperimentError> {
    refuse_other_run(record, out)?;
    let cases: HashSet<&Path> = record.cases.iter().map(Path::new).collect();
    let mut sources: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for part in parts {
        let mut files = Vec::new();
        list(&part.folder, &mut files)?;
        for file in files {
            let name = file.strip_prefix(&part.folder).unwrap_or(&file).to_owned();
            match sources.get(&name) {
                None => drop(sources.insert(name, file)),
                Some(first) if cases.contains(name.as_path()) => refuse_differing(first, &file)?,
                // Other files: pictures of the cases, and descriptions of all cases.
                Some(_) => {}
            }
        }
    }
    for (name, source) in &sources {
        write(&out.join(name), &fs::read(source).map_err(at(source))?)?;
    }
    Ok(())
}

/// Accepts a folder with this run, from an earlier merge, but not with another run.
fn refuse_other_run(record: &PartRecord, out: &Path) -> Result<(), ExperimentError> {
    let path = out.join(RUN);
    // An experiment's `run.json` belongs to its report, which is overwritten.
    if record.kind == RunKind::Reproduce {
        return Ok(());
    }
    let Some(bytes) = read(&path)? else { return Ok(()) };
    let held = serde_json::from_slice(&bytes).map_err(damaged(&path))?;
    match difference("", &held, &record.run) {
        Some(difference) => {
            Err(ExperimentError::OtherRun { folder: out.to_owned(), difference: difference.to_string() })
        }
        None => Ok(()),
    }
}

/// All files below a folder, except those about the part itself and temporary files.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), ExperimentError> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            list(&path, files)?;
        } else if ![PART, LOCK].contains(&&*name) && !name.starts_with('.') {
            files.push(path);
        }
    }
    Ok(())
}

/// Two computations of a case must agree except for their times.
fn refuse_differing(one: &Path, other: &Path) -> Result<(), ExperimentError> {
    let [held, wanted] = [one, other].map(|path| -> Result<Value, ExperimentError> {
        let bytes = fs::read(path).map_err(at(path))?;
        serde_json::from_slice(&bytes).map(without_times).map_err(damaged(path))
    });
    if held? == wanted? {
        return Ok(());
    }
    Err(ExperimentError::OtherRow { one: one.to_owned(), other: other.to_owned() })
}

fn without_times(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| key != "seconds")
            .map(|(key, value)| (key, without_times(value)))
            .collect(),
        Value::Array(values) => values.into_iter().map(without_times).collect(),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::Machine;

    /// A part of three cases in the folder `name`, with the results of those in `has`.
    fn part(folder: &Path, name: &str, part: &str, run: &Value, has: &[(&str, Value)]) -> PathBuf {
        let folder = folder.join(name);
        let record = PartRecord {
            part: part.parse().unwrap(),
            command: ["sweep", "--out", name].map(str::to_owned).to_vec(),
            machine: Machine { processor: Some(name.to_owned()), threads: 1 },
            kind: RunKind::Sweep,
            run: run.clone(),
            cases: ["a", "b", "c"].map(|case| format!("rows/{case}.json")).to_vec(),
        };
        write(&folder.join(PART), &serde_json::to_vec(&record).unwrap()).unwrap();
        for (case, row) in has {
            write(&folder.join(format!("rows/{case}.json")), row.to_string().as_bytes()).unwrap();
        }
        folder
    }

    fn row(accuracy: f64, seconds: f64) -> Value {
        json!({ "settings": "s", "result": { "accuracy": accuracy, "seconds": seconds, "inner": [{ "seconds": seconds }] } })
    }

    fn parts(folder: &Path, names: &[&str]) -> Vec<Found> {
        let mut found = Vec::new();
        names.iter().for_each(|name| find(&folder.join(name), DEPTH, &mut found).unwrap());
        found
    }

    #[test]
    fn what_is_missing_is_said_with_the_command_that_makes_it() {
        let (folder, run) = (tempfile::tempdir().unwrap(), json!({ "seed": 1 }));
        part(folder.path(), "one", "1/3", &run, &[("a", row(0.5, 1.0))]);
        let two = part(folder.path(), "two", "2/3", &run, &[]);
        let out = folder.path().join("out");
        let merged = merge(&[folder.path().join("one"), two], &out).unwrap();
        let command = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let of = |part: &str, words: &str| MissingPart {
            part: part.parse().unwrap(),
            missing: 1,
            cases: 1,
            command: command(words),
        };
        assert_eq!(merged.pages, Vec::<PathBuf>::new());
        // A part that was not started uses the command of another part.
        assert_eq!(merged.missing, [of("2/3", "sweep --out two --part 2/3"), of("3/3", "sweep --out one --part 3/3")]);
        assert!(!out.exists(), "nothing is written");
    }

    #[test]
    fn a_case_may_come_twice_and_must_come_out_the_same() {
        let (folder, run) = (tempfile::tempdir().unwrap(), json!({ "seed": 1 }));
        let out = folder.path().join("out");
        part(folder.path(), "one", "1/3", &run, &[("a", row(0.5, 1.0)), ("b", row(0.25, 1.0))]);
        part(folder.path(), "two", "1/3", &run, &[("a", row(0.5, 2.0)), ("c", row(0.75, 2.0))]);
        // An interrupted write leaves a temporary file, which is ignored.
        fs::write(folder.path().join("two/rows/.b.json-x"), "{").unwrap();
        let found = parts(folder.path(), &["one", "two"]);
        assert!(missing(&found[0].record, &found).is_empty());
        collect(&found[0].record, &found, &out).unwrap();
        let kept: Vec<String> = entries(&out.join("rows"))
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(kept, ["a.json", "b.json", "c.json"]);
        assert_eq!(fs::read(out.join("rows/a.json")).unwrap(), row(0.5, 1.0).to_string().into_bytes(), "the first");
        fs::write(folder.path().join("two/rows/a.json"), row(0.5000001, 1.0).to_string()).unwrap();
        let error = collect(&found[0].record, &found, &out).unwrap_err().to_string();
        assert!(error.contains("one/rows/a.json") && error.contains("two/rows/a.json"), "{error}");
        fs::write(out.join(RUN), json!({ "seed": 2 }).to_string()).unwrap();
        let error = collect(&found[0].record, &found, &out).unwrap_err().to_string();
        assert!(error.contains("seed was 2 and is now 1") && error.contains("another --out"), "{error}");
    }

    #[test]
    fn parts_of_different_builds_or_settings_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let run = |commit: &str, seed: u64| json!({ "commit": commit, "settings": { "seed": seed } });
        part(folder.path(), "one", "1/3", &run("abc", 1), &[]);
        part(folder.path(), "built", "2/3", &run("abd", 1), &[]);
        part(folder.path(), "set", "2/3", &run("abc", 7), &[]);
        part(folder.path(), "divided", "2/4", &run("abc", 1), &[]);
        let refusal = |name: &str| {
            let folders = ["one", name].map(|name| folder.path().join(name));
            merge(&folders, &folder.path().join("out")).unwrap_err().to_string()
        };
        for (name, says) in [
            ("built", "commit is \"abc\" in the first and \"abd\" in the second"),
            ("set", "settings.seed is 1 in the first and 7 in the second"),
            ("divided", "parts is 3 in the first and 4 in the second"),
        ] {
            let error = refusal(name);
            assert!(error.contains(says) && error.contains("/one") && error.contains(&format!("/{name}")), "{error}");
        }
        let error = merge(&[folder.path().join("one/rows")], folder.path()).unwrap_err().to_string();
        assert!(error.contains("one/rows"), "{error}");
        fs::create_dir(folder.path().join("empty")).unwrap();
        let error = merge(&[folder.path().join("empty")], folder.path()).unwrap_err().to_string();
        assert!(error.contains("empty") && error.contains("--part"), "{error}");
    }
}
