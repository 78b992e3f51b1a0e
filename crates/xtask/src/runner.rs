//! Runs steps one after the other and reports on all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::env::Env;
use crate::leftovers;

pub struct Step {
    /// The name for `--only` and `--skip`.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// Steps that must succeed before this one makes sense.
    pub needs: &'static [&'static str],
    /// The check itself. Its output goes straight to the terminal; it records tests that failed or did not run.
    pub run: fn(&Env, &mut TestNotes) -> Result<()>,
}

/// What the tests of a step reported: those that could not run on this machine, and those that failed.
#[derive(Default)]
pub struct TestNotes {
    skipped: Vec<String>,
    failed: Vec<String>,
    /// By the thread's name, which is the test's: where it panicked, and its message.
    panics: BTreeMap<String, Vec<String>>,
    /// The thread whose message is on the next line.
    panicking: Option<String>,
}

impl TestNotes {
    /// Records what the step could not do here, and why.
    pub fn skip(&mut self, what: &str, reason: &str) {
        self.skipped.push(format!("{what}: {reason}"));
    }

    /// Reads a line of a test program's output. It knows libtest's lines about ignored and failed tests and panicking
    /// threads, failed browser tests, `skipped: NAME: REASON` from `tests/support/skipped.rs`, and pytest's `FAILED
    /// NAME - REASON` and `ERROR NAME - REASON`.
    pub fn read(&mut self, line: &str) {
        if let Some(thread) = self.panicking.take() {
            self.panics.entry(thread).or_default().push(line.to_owned());
        }
        let (test, outcome) = match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            Some((test, outcome)) => (Some(test), outcome),
            None => (None, line),
        };
        if let Some(note) = outcome.strip_prefix("skipped: ") {
            // A test without its own thread only knows that it runs on the main one, but libtest has just printed its
            // name.
            let note = match (test, note.strip_prefix("main: ")) {
                (Some(test), Some(reason)) => format!("{test}: {reason}"),
                _ => note.to_owned(),
            };
            self.skipped.push(note);
        } else if let (Some(test), Some(reason)) = (test, outcome.strip_prefix("ignored")) {
            self.skipped.push(format!("{test}: {}", reason.strip_prefix(", ").unwrap_or("ignored")));
        } else if let (Some(test), "FAILED" | "FAIL") = (test, outcome) {
            self.fail(test);
        } else if let Some((thread, place)) = panic_of(line) {
            self.panics.entry(thread.to_owned()).or_default().push(place.to_owned());
            self.panicking = Some(thread.to_owned());
        } else if let Some(test) = ["FAILED ", "ERROR "].iter().find_map(|word| line.strip_prefix(word))
            && test.contains(".py")
        {
            self.fail(test);
        }
    }

    /// A test that runs itself in a child process is named twice.
    fn fail(&mut self, test: &str) {
        if !self.failed.iter().any(|known| known == test) {
            self.failed.push(test.to_owned());
        }
    }

    /// The failed tests, each with the place of its panic and the first line of its message.
    fn failures(&self) -> impl Iterator<Item = String> {
        self.failed.iter().map(|test| match self.panics.get(test) {
            Some(lines) => format!("{test}: {}", lines.join(" ")),
            None => test.clone(),
        })
    }
}

/// The thread and the place in `thread 'NAME' (7) panicked at FILE:LINE:COLUMN:`.
fn panic_of(line: &str) -> Option<(&str, &str)> {
    let (thread, place) = line.strip_prefix("thread '")?.split_once(" panicked at ")?;
    Some((thread.split_once('\'')?.0, place))
}

enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

#[derive(Default)]
pub struct Report {
    steps: Vec<(&'static str, Outcome, Duration)>,
    skipped: Vec<(&'static str, String)>,
    failed: Vec<(&'static str, String)>,
}

/// The steps of `all` selected by `only` (all if empty) and `skip`, in their order.
///
/// # Errors
/// A name belongs to no step.
pub fn select<'a>(all: &'a [Step], only: &[String], skip: &[String]) -> Result<Vec<&'a Step>> {
    for name in only.iter().chain(skip) {
        if !all.iter().any(|step| step.name == name) {
            let names: Vec<_> = all.iter().map(|step| step.name).collect();
            bail!("there is no step {name:?}; the steps are {}", names.join(", "));
        }
    }
    let is_in = |names: &[String], step: &Step| names.iter().any(|name| name == step.name);
    Ok(all.iter().filter(|step| (only.is_empty() || is_in(only, step)) && !is_in(skip, step)).collect())
}

/// Runs `steps`. A step is not run if one that it needs did not succeed. All others run even after a failure, so that
/// one run shows everything that is wrong, unless `fail_fast`. A step's leftover processes are ended with it.
pub fn run(env: &Env, steps: &[&Step], fail_fast: bool) -> Report {
    let mut report = Report::default();
    for step in steps {
        leftovers::wait_if_interrupted();
        if let Some(reason) = report.obstacle(step, fail_fast) {
            report.steps.push((step.name, Outcome::NotRun(reason), Duration::ZERO));
            continue;
        }
        eprintln!("\n== {}: {}", step.name, step.about);
        let started = Instant::now();
        let mut tests = TestNotes::default();
        let outcome = match (step.run)(env, &mut tests) {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                eprintln!("error: {error:#}");
                Outcome::Failed(format!("{error:#}"))
            }
        };
        leftovers::end_and_say(&env.mark);
        report.steps.push((step.name, outcome, started.elapsed()));
        report.failed.extend(tests.failures().map(|test| (step.name, test)));
        report.skipped.extend(tests.skipped.into_iter().map(|test| (step.name, test)));
    }
    report
}

impl Report {
    pub fn is_success(&self) -> bool {
        self.steps.iter().all(|(_, outcome, _)| matches!(outcome, Outcome::Passed))
    }

    fn obstacle(&self, step: &Step, fail_fast: bool) -> Option<String> {
        let not_passed = |(_, outcome, _): &&(&str, Outcome, Duration)| !matches!(outcome, Outcome::Passed);
        let (name, ..) =
            self.steps.iter().filter(not_passed).find(|(name, ..)| fail_fast || step.needs.contains(name))?;
        Some(format!("{name} did not pass"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for (name, outcome, time) in &self.steps {
            let (word, note) = match outcome {
                Outcome::Passed => ("passed", ""),
                Outcome::Failed(_) => ("FAILED", ""),
                Outcome::NotRun(reason) => ("not run", reason.as_str()),
            };
            writeln!(f, "{}", format!("{name:<14} {word:<8} {:>7.1} s  {note}", time.as_secs_f64()).trim_end())?;
        }
        let total: Duration = self.steps.iter().map(|(.., time)| time).sum();
        writeln!(f, "{:<14} {:<8} {:>7.1} s", "all", "", total.as_secs_f64())?;
        if !self.skipped.is_empty() {
            writeln!(f, "\nTests that did not run here:")?;
            for (name, test) in &self.skipped {
                writeln!(f, "{name:<14} {test}")?;
            }
        }
        if !self.failed.is_empty() {
            writeln!(f, "\nTests that failed:")?;
            for (name, test) in &self.failed {
                writeln!(f, "{name:<14} {test}")?;
            }
        }
        let mut failures = self.steps.iter().filter_map(|(name, outcome, _)| match outcome {
            Outcome::Failed(error) => Some((name, error)),
            _ => None,
        });
        if let Some((name, error)) = failures.next() {
            writeln!(f, "\nFirst failure: {name}: {error}")?;
            writeln!(f, "See its output above, after \"== {name}\"; to repeat it: cargo check-all --only {name}")?;
        }
        let count =
            |is_kind: fn(&Outcome) -> bool| self.steps.iter().filter(|(_, outcome, _)| is_kind(outcome)).count();
        let passed = count(|outcome| matches!(outcome, Outcome::Passed));
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
        write!(f, "\n{passed} passed, {failed} failed")?;
        match self.skipped.len() {
            0 => writeln!(f),
            skipped => writeln!(f, ", {skipped} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(_: &Env, _: &mut TestNotes) -> Result<()> {
        Ok(())
    }

    fn fail(_: &Env, _: &mut TestNotes) -> Result<()> {
        bail!("three are wrong")
    }

    fn fail_two(_: &Env, tests: &mut TestNotes) -> Result<()> {
        for line in [
            "thread 'room::opens' (12140) panicked at crates/relay/tests/room/opens.rs:211:9:",
            "the door is shut",
            "note: run with `RUST_BACKTRACE=1`",
            "test room::opens ... FAILED",
            "test room::opens ... FAILED",
            "test room::closes ... ok",
            "ERROR 7 is no test",
            "test in_the_browser ... FAIL",
            "FAILED test_app.py::test_masks - assert 3 == 4",
            "failures:",
        ] {
            tests.read(line);
        }
        bail!("two are wrong")
    }

    fn skip_two(_: &Env, tests: &mut TestNotes) -> Result<()> {
        for line in [
            "running 4 tests",
            "test plain ... ok",
            "test vectors ... ignored, needs vectors",
            "skipped: gpu::wgpu: there is no adapter",
        ] {
            tests.read(line);
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn leave_a_process(env: &Env, _: &mut TestNotes) -> Result<()> {
        let outcome = crate::env::run(env.command("sh").args(["-c", "sleep 600 & exit 7"]));
        if leftovers::marked(&env.mark).is_empty() { bail!("nothing was left to end") } else { outcome }
    }

    /// A killed driver leaves its browser behind in the same way.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_failing_step_leaves_running_ends_with_it() {
        let env = Env::detect().expect("a home");
        let step = Step { name: "leaves", about: "", needs: &[], run: leave_a_process };
        let report = run(&env, &[&step], false).to_string();
        assert!(report.contains("failed (exit status: 7)"), "{report}");
        assert_eq!(leftovers::marked(&env.mark), []);
    }

    const STEPS: &[Step] = &[
        Step { name: "first", about: "", needs: &[], run: pass },
        Step { name: "broken", about: "", needs: &["first"], run: fail },
        Step { name: "dependent", about: "", needs: &["broken"], run: pass },
        Step { name: "indirect", about: "", needs: &["dependent"], run: pass },
        Step { name: "free", about: "", needs: &["first"], run: pass },
    ];

    fn outcomes(only: &[&str], fail_fast: bool) -> String {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        let steps = select(STEPS, &only, &[]).expect("known names");
        run(&Env::detect().expect("a home"), &steps, fail_fast).to_string()
    }

    #[test]
    fn a_failure_stops_only_what_needs_it() {
        let text = outcomes(&[], false);
        assert!(text.contains("dependent      not run      0.0 s  broken did not pass"), "{text}");
        assert!(text.contains("indirect       not run      0.0 s  dependent did not pass"), "{text}");
        assert!(text.contains("free           passed"), "{text}");
        assert!(text.contains("First failure: broken: three are wrong"), "{text}");
        assert!(text.ends_with("\n2 passed, 1 failed\n"), "{text}");
    }

    #[test]
    fn fail_fast_stops_everything_after_the_first_failure() {
        let text = outcomes(&[], true);
        assert!(text.contains("free           not run"), "{text}");
        assert!(text.ends_with("\n1 passed, 1 failed\n"), "{text}");
    }

    #[test]
    fn a_step_alone_does_not_ask_for_what_it_needs() {
        let text = outcomes(&["dependent"], false);
        assert!(text.ends_with("\n1 passed, 0 failed\n"), "{text}");
    }

    #[test]
    fn tests_that_did_not_run_are_listed_and_counted() {
        let step = Step { name: "some", about: "", needs: &[], run: skip_two };
        let text = run(&Env::detect().expect("a home"), &[&step], false).to_string();
        assert!(text.contains("some           vectors: needs vectors\n"), "{text}");
        assert!(text.contains("some           gpu::wgpu: there is no adapter\n"), "{text}");
        assert!(text.ends_with("\n1 passed, 0 failed, 2 skipped\n"), "{text}");
    }

    #[test]
    fn tests_that_failed_are_listed_with_where_they_stopped() {
        let step = Step { name: "some", about: "", needs: &[], run: fail_two };
        let text = run(&Env::detect().expect("a home"), &[&step], false).to_string();
        let listed = "Tests that failed:\n\
            some           room::opens: crates/relay/tests/room/opens.rs:211:9: the door is shut\n\
            some           in_the_browser\n\
            some           test_app.py::test_masks - assert 3 == 4\n\n";
        assert!(text.contains(listed), "{text}");
    }

    #[test]
    fn a_skipped_test_is_named_on_one_core_and_on_many() {
        let mut tests = TestNotes::default();
        tests.read("test wgpu ... skipped: main: no adapter");
        tests.read("test other ... skipped: wgpu: no adapter");
        tests.read("test what_was_skipped: an odd name ... ok");
        assert_eq!(tests.skipped, ["wgpu: no adapter", "wgpu: no adapter"]);
    }

    #[test]
    fn an_unknown_step_is_named_with_the_known_ones() {
        let error = select(STEPS, &[], &["furst".to_owned()]).err().expect("unknown").to_string();
        assert!(error.contains("\"furst\"") && error.contains("first, broken"), "{error}");
    }
}
