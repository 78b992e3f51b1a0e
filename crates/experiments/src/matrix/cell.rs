//! Computes one row: the attack and its verdict.

use std::{ops::ControlFlow, time::Instant};

use unmask_attack::{Observation, OnProgress, Recovered, SearchOptions, Searches, run};
use unmask_core::{AttackMethod, MaskSeed, MembershipVerdict, Verdict};
use unmask_inversion::{Check, InferenceAttack, judge, score};
use unmask_simulation::files::rounded;

use super::{
    MatrixRow,
    client::Observed,
    plan::{Cell, MatrixPlan, seed_of},
};
use crate::error::ExperimentError;

/// A row and its pictures, each `[side, side, 3]` in [0, 1].
pub(super) struct ComputedRow {
    pub(super) row: MatrixRow,
    pub(super) pictures: Vec<Vec<f32>>,
}

/// Runs one attack. `progress` receives the progress of a search, and may end it.
pub(super) fn compute(
    plan: &MatrixPlan,
    cell: &Cell,
    &Observed { ref observation, victim }: &Observed,
    searches: &dyn Searches,
    progress: OnProgress<'_>,
) -> Result<ComputedRow, ExperimentError> {
    let batch = &plan.batches[cell.batch];
    let mut computed = ComputedRow {
        row: MatrixRow {
            attack: cell.attack,
            defence: cell.defence,
            threat: cell.threat,
            image: batch.name.clone(),
            seed: cell.seed,
            verdict: Verdict::CannotTell(String::new()),
            has_nothing_to_solve: false,
            reason: None,
            psnr: None,
            ssim: None,
            misfit: None,
            seconds: 0.0,
            iterations: None,
            pictures: Vec::new(),
        },
        pictures: Vec::new(),
    };
    if let Some(reason) = plan.redundancy(cell) {
        computed.row.verdict = Verdict::CannotTell(reason);
        return Ok(computed);
    }
    match cell.attack {
        InferenceAttack::Reconstruction(method) => {
            let MaskSeed(seed) = seed_of(cell.seed, &["start", method.name(), &batch.name]);
            let (seed, _) = seed.split_at(8);
            let seed = seed.iter().fold(0, |seed, &byte| seed << 8 | u64::from(byte));
            let options = SearchOptions { seed, ..plan.settings().search_options() };
            match run(method, observation, searches, options, progress) {
                Ok(found) => {
                    let truths = &batch.truths;
                    let check = Check::new(method, observation, searches, &found, truths);
                    judge_pictures(&mut computed, method, found, &check, truths, plan)?;
                }
                Err(cannot) => {
                    computed.row.has_nothing_to_solve = cannot.has_nothing_to_solve();
                    computed.row.verdict = Verdict::CannotTell(cannot.to_string());
                }
            }
        }
        InferenceAttack::Labels if observation.labels.is_some() => {
            computed.row.verdict = Verdict::CannotTell("the relay named the class itself".to_owned());
        }
        InferenceAttack::Labels => judge_labels(&mut computed.row, observation, &batch.batch.labels),
        InferenceAttack::Membership => {
            judge_membership(&mut computed.row, (observation, victim), searches, plan, cell);
        }
    }
    computed.row.seconds = rounded(computed.row.seconds, 3);
    Ok(computed)
}

fn judge_pictures(
    computed: &mut ComputedRow,
    method: AttackMethod,
    found: Recovered,
    check: &Check,
    truths: &[Vec<f32>],
    plan: &MatrixPlan,
) -> Result<(), ExperimentError> {
    let model = plan.settings().model;
    let score = score(method, &found.pictures, truths, model, (model.side(), model.side()))?;
    let row = &mut computed.row;
    row.verdict = judge(Some(&score), check);
    row.misfit = check.misfit.as_ref().ok().map(|misfit| rounded(misfit.relative, 6));
    row.psnr = Some(rounded(score.psnr, 4));
    row.ssim = Some(rounded(score.ssim, 6));
    row.seconds = found.seconds;
    row.iterations = found.iterations;
    let mut notes = found.notes;
    if score.arranged.is_some() {
        notes.push("The score is that of the best order of the pieces, which only the client knows.".to_owned());
    }
    row.reason = (!notes.is_empty()).then(|| notes.join(" "));
    computed.pictures = found.pictures;
    computed.pictures.extend(score.arranged.into_iter().flatten());
    Ok(())
}

/// Labels count as recognised if all of them are right.
fn judge_labels(row: &mut MatrixRow, observation: &Observation, truth: &[usize]) {
    let clock = Instant::now();
    let read = observation.read_labels().map(|read| read.labels());
    row.seconds = clock.elapsed().as_secs_f64();
    match read {
        Ok(read) => {
            let mut truth = truth.to_vec();
            truth.sort_unstable();
            let is_right = read == truth;
            row.verdict = if is_right { Verdict::Recognisable } else { Verdict::NotRecognisableByThisAttack };
            row.reason = Some(if is_right {
                format!("Read {read:?}, which is right.")
            } else {
                format!("Read {read:?}, where {truth:?} is right.")
            });
        }
        Err(cannot) => row.verdict = Verdict::CannotTell(cannot.to_string()),
    }
}

/// The attack must answer correctly for the picture itself, and for the next picture of the folder if there is one.
fn judge_membership(
    row: &mut MatrixRow,
    (observation, victim): (&Observation, usize),
    searches: &dyn Searches,
    plan: &MatrixPlan,
    cell: &Cell,
) {
    let clock = Instant::now();
    let (member, others) = (&plan.batches[cell.batch], plan.batches.len());
    let stranger = (others > 1).then(|| &plan.batches[(cell.batch + 1) % others]);
    let candidates = [(Some(member), victim, MembershipVerdict::Member), (stranger, 0, MembershipVerdict::Stranger)];
    let mut words = Vec::new();
    let (mut are_right, mut undecided) = (true, None);
    for (candidate, number, expected) in candidates {
        let Some((name, candidate)) = candidate.and_then(|batch| Some((&batch.name, batch.truths.get(number)?))) else {
            continue;
        };
        match observation.membership(searches, candidate, Some(observation.batch), &mut || ControlFlow::Continue(())) {
            Ok(told) => {
                are_right &= told.verdict == expected;
                if told.verdict == MembershipVerdict::Undecided {
                    undecided = Some(name.clone());
                }
                let answer = match told.verdict {
                    MembershipVerdict::Member => "was there",
                    MembershipVerdict::Stranger => "was not there",
                    MembershipVerdict::Undecided => "cannot be told",
                };
                words.push(format!("{name}: {answer} (residual {:.1e})", told.residual));
            }
            Err(cannot) => {
                row.verdict = Verdict::CannotTell(cannot.to_string());
                return;
            }
        }
    }
    row.seconds = clock.elapsed().as_secs_f64();
    row.verdict = match undecided {
        Some(name) => Verdict::CannotTell(format!("{name} fits better than chance and worse than exactly")),
        None if are_right => Verdict::Recognisable,
        None => Verdict::NotRecognisableByThisAttack,
    };
    row.reason = Some(words.join("; "));
}
