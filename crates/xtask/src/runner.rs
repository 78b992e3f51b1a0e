//! Runs steps one after the other, some of them beside another, and reports on all of them.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, iter, thread};

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
    /// The step that mostly waits once it has compiled. Beside it, this one runs at a lower priority, and perhaps beside
    /// another such step. It may need neither.
    pub beside: Option<&'static str>,
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
    /// Tells steps beside this one that they may begin.
    others: Option<Sender<()>>,
}

impl TestNotes {
    /// Lets the steps beside this one begin: it has compiled what it needs.
    pub fn others_may_begin(&mut self) {
        // Without a receiver there are no others.
        self.others.take().map(|others| others.send(()));
    }

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
    time: Duration,
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
/// one run shows everything that is wrong, unless `fail_fast`. Then, or if that step is not among them, no step runs
/// beside another.
pub fn run(env: &Env, steps: &[&Step], fail_fast: bool) -> Report {
    let begun = Instant::now();
    let mut report = Report::default();
    let is_there = |name: &str| steps.iter().any(|step| step.name == name);
    let host_of = |step: &Step| step.beside.filter(|host| !fail_fast && is_there(host));
    for step in steps.iter().filter(|step| host_of(step).is_none()) {
        let guests: Vec<&Step> = steps.iter().copied().filter(|guest| host_of(guest) == Some(step.name)).collect();
        report.add(env, step, &guests, fail_fast);
    }
    report.time = begun.elapsed();
    report
}

/// What became of a step.
struct Ended {
    name: &'static str,
    outcome: Outcome,
    time: Duration,
    tests: TestNotes,
}

/// Runs a step, unless there is an obstacle, and ends its leftover processes.
fn run_one(env: &Env, step: &Step, obstacle: Option<String>, mut tests: TestNotes) -> Ended {
    leftovers::wait_if_interrupted();
    let started = Instant::now();
    let outcome = match obstacle {
        Some(reason) => Outcome::NotRun(reason),
        None => {
            eprintln!("\n== {}: {}", step.name, step.about);
            let outcome = (step.run)(env, &mut tests);
            leftovers::end_and_say(&env.mark);
            match outcome {
                Ok(()) => Outcome::Passed,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    Outcome::Failed(format!("{error:#}"))
                }
            }
        }
    };
    tests.others = None;
    Ended { name: step.name, outcome, time: started.elapsed(), tests }
}

/// Runs these steps beside another one, [`leftovers::GUESTS`] at a time.
fn run_beside(env: &Env, steps: Vec<(&Step, Option<String>)>) -> Vec<Ended> {
    let left = Mutex::new(steps.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run_next = |guest| {
        let aside = env.aside(guest);
        let run = |(place, (step, obstacle))| (place, run_one(&aside, step, obstacle, TestNotes::default()));
        iter::from_fn(next).map(run).collect::<Vec<_>>()
    };
    let run_next = &run_next;
    let mut ended: Vec<(usize, Ended)> = thread::scope(|scope| {
        let guests: Vec<_> = (0..leftovers::GUESTS).map(|guest| scope.spawn(move || run_next(guest))).collect();
        guests.into_iter().flat_map(|guest| guest.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, ended)| ended).collect()
}

impl Report {
    pub fn is_success(&self) -> bool {
        self.steps.iter().all(|(_, outcome, _)| matches!(outcome, Outcome::Passed))
    }

    /// Runs a step with the steps beside it.
    fn add(&mut self, env: &Env, step: &Step, guests: &[&Step], fail_fast: bool) {
        let obstacle = self.obstacle(step, fail_fast);
        let guests: Vec<(&Step, Option<String>)> =
            guests.iter().map(|guest| (*guest, self.obstacle(guest, fail_fast))).collect();
        let (others, may_begin) = mpsc::channel();
        let tests = TestNotes { others: Some(others), ..TestNotes::default() };
        let ended = thread::scope(|scope| {
            let guests = scope.spawn(move || {
                // An error means that the step has ended.
                let _ = may_begin.recv();
                run_beside(env, guests)
            });
            let host = run_one(env, step, obstacle, tests);
            [host].into_iter().chain(guests.join().unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
        });
        for Ended { name, outcome, time, tests } in ended {
            self.steps.push((name, outcome, time));
            self.failed.extend(tests.failures().map(|test| (name, test)));
            self.skipped.extend(tests.skipped.into_iter().map(|test| (name, test)));
        }
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
        writeln!(f, "{:<14} {:<8} {:>7.1} s", "all", "", self.time.as_secs_f64())?;
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
            writeln!(
                f,
                "See its output above, after \"== {name}\"; to repeat it alone: cargo check-all --only {name}"
            )?;
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::steps::ALL;

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
        if leftovers::marked(std::slice::from_ref(&env.mark)).is_empty() {
            bail!("nothing was left to end")
        } else {
            outcome
        }
    }

    /// A killed driver leaves its browser behind in the same way.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_failing_step_leaves_running_ends_with_it() {
        let env = Env::detect().expect("a home");
        let step = Step { name: "leaves", about: "", needs: &[], beside: None, run: leave_a_process };
        let report = run(&env, &[&step], false).to_string();
        assert!(report.contains("failed (exit status: 7)"), "{report}");
        assert_eq!(leftovers::marked(std::slice::from_ref(&env.mark)), []);
    }

    const STEPS: &[Step] = &[
        Step { name: "first", about: "", needs: &[], beside: None, run: pass },
        Step { name: "broken", about: "", needs: &["first"], beside: None, run: fail },
        Step { name: "dependent", about: "", needs: &["broken"], beside: None, run: pass },
        Step { name: "indirect", about: "", needs: &["dependent"], beside: None, run: pass },
        Step { name: "free", about: "", needs: &["first"], beside: None, run: pass },
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

    fn wait_for_a_guest(_: &Env, tests: &mut TestNotes) -> Result<()> {
        tests.others_may_begin();
        let begun = Instant::now();
        while !GUEST.load(Ordering::SeqCst) {
            if begun.elapsed() > Duration::from_secs(60) {
                bail!("no guest came");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn come(_: &Env, _: &mut TestNotes) -> Result<()> {
        GUEST.store(true, Ordering::SeqCst);
        bail!("came")
    }

    static GUEST: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_step_runs_beside_another_and_alone_without_it() {
        let host = Step { name: "host", about: "", needs: &[], beside: None, run: wait_for_a_guest };
        let guest = Step { name: "guest", about: "", needs: &[], beside: Some("host"), run: come };
        let last = Step { name: "last", about: "", needs: &["guest"], beside: None, run: pass };
        let report = |steps: &[&Step]| run(&Env::detect().expect("a home"), steps, false).to_string();
        let text = report(&[&host, &last, &guest]);
        assert!(text.contains("host           passed") && text.contains("guest          FAILED"), "{text}");
        assert!(text.contains("guest did not pass") && text.ends_with("\n1 passed, 1 failed\n"), "{text}");
        assert!(report(&[&guest]).contains("guest          FAILED"));
    }

    /// Waits until so many of these steps run or have run.
    fn meet(count: usize) -> Result<()> {
        MET.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        while MET.load(Ordering::SeqCst) < count {
            if begun.elapsed() > Duration::from_secs(60) {
                bail!("the others did not come");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    static MET: AtomicUsize = AtomicUsize::new(0);

    /// The first ends last.
    #[test]
    fn two_steps_run_beside_another_and_are_reported_in_their_order() {
        let host = Step { name: "host", about: "", needs: &[], beside: None, run: pass };
        let guest = |name, run| Step { name, about: "", needs: &[], beside: Some("host"), run };
        let (one, other) = (guest("one", |_, _| meet(3)), guest("other", |_, _| meet(2)));
        let last = guest("last", |_, _| meet(3));
        let report = run(&Env::detect().expect("a home"), &[&host, &one, &other, &last], false);
        let names: Vec<&str> = report.steps.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["host", "one", "other", "last"], "{report}");
        assert!(report.is_success(), "{report}");
    }

    #[test]
    fn no_step_needs_one_that_runs_at_the_same_time() {
        for step in ALL.iter().filter(|step| step.beside.is_some()) {
            let beside = |other: &&Step| Some(other.name) == step.beside || other.beside == step.beside;
            let names: Vec<&str> = ALL.iter().filter(beside).map(|other| other.name).collect();
            assert!(!step.needs.iter().any(|name| names.contains(name)), "{} needs one of {names:?}", step.name);
        }
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
        let step = Step { name: "some", about: "", needs: &[], beside: None, run: skip_two };
        let text = run(&Env::detect().expect("a home"), &[&step], false).to_string();
        assert!(text.contains("some           vectors: needs vectors\n"), "{text}");
        assert!(text.contains("some           gpu::wgpu: there is no adapter\n"), "{text}");
        assert!(text.ends_with("\n1 passed, 0 failed, 2 skipped\n"), "{text}");
    }

    #[test]
    fn tests_that_failed_are_listed_with_where_they_stopped() {
        let step = Step { name: "some", about: "", needs: &[], beside: None, run: fail_two };
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
