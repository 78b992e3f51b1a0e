//! Runs steps one after the other, and reports on all of them.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::env::Env;

/// One check.
pub struct Step {
    /// What `--only` and `--skip` take.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// Steps without whose success this one says nothing.
    pub needs: &'static [&'static str],
    /// The check itself; its output goes straight to the terminal.
    pub run: fn(&Env) -> Result<()>,
}

enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

/// What became of each step.
#[derive(Default)]
pub struct Report {
    steps: Vec<(&'static str, Outcome, Duration)>,
}

/// The steps of `all` that `only` (everything where empty) and `skip` leave, in their order.
///
/// # Errors
/// A name that no step has.
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

/// Runs `steps`. One that needs a step that did not succeed is not run; the others are, so that
/// one run shows everything that is wrong, unless `fail_fast`.
pub fn run(env: &Env, steps: &[&Step], fail_fast: bool) -> Report {
    let mut report = Report::default();
    for step in steps {
        if let Some(reason) = report.obstacle(step, fail_fast) {
            report.steps.push((step.name, Outcome::NotRun(reason), Duration::ZERO));
            continue;
        }
        eprintln!("\n== {}: {}", step.name, step.about);
        let started = Instant::now();
        let outcome = match (step.run)(env) {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                eprintln!("error: {error:#}");
                Outcome::Failed(format!("{error:#}"))
            }
        };
        report.steps.push((step.name, outcome, started.elapsed()));
    }
    report
}

impl Report {
    /// True where every step ran and passed.
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
        let mut failures = self.steps.iter().filter_map(|(name, outcome, _)| match outcome {
            Outcome::Failed(error) => Some((name, error)),
            _ => None,
        });
        if let Some((name, error)) = failures.next() {
            writeln!(f, "\nFirst failure: {name}: {error}")?;
            writeln!(f, "Its output stands above, below \"== {name}\"; again: cargo check-all --only {name}")?;
        }
        let count =
            |is_kind: fn(&Outcome) -> bool| self.steps.iter().filter(|(_, outcome, _)| is_kind(outcome)).count();
        let passed = count(|outcome| matches!(outcome, Outcome::Passed));
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
        writeln!(f, "\n{passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(_: &Env) -> Result<()> {
        Ok(())
    }

    fn fail(_: &Env) -> Result<()> {
        bail!("three are wrong")
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
    fn an_unknown_step_is_named_with_the_known_ones() {
        let error = select(STEPS, &[], &["furst".to_owned()]).err().expect("unknown").to_string();
        assert!(error.contains("\"furst\"") && error.contains("first, broken"), "{error}");
    }
}
