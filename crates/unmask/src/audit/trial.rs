//! The predictions put to the test: updates of synthetic pictures, protected and attacked.

use std::{fs, path::Path};

use anyhow::anyhow;
use unmask_audit::{Audit as Report, Deployment, Tried, Viewer};
use unmask_core::{ThreatModel, Verdict};
use unmask_data::{Picture, synthetic_picture};
use unmask_experiments::matrix::{MatrixEvent, MatrixRequest, MatrixRow, MatrixSettings, example, run};
use unmask_inversion::InferenceAttack;
use unmask_model::device::OpenDevice;
use unmask_simulation::{StartWeights, load_start};

use crate::{Failure, commit, interrupt::Interrupt, matrix::Bar};

/// Rounds of one picture that the attack `rounds` gathers.
const ROUNDS: usize = 5;
/// The server's rate between them.
const RATE: f32 = 1e-5;

pub(super) struct Trial<'a> {
    pub(super) deployment: Deployment,
    pub(super) start: &'a StartWeights,
    /// Why the model cannot be run, as a clause.
    pub(super) not_run: Option<String>,
    pub(super) updates: usize,
    pub(super) with_searches: bool,
    pub(super) seed: u64,
}

impl Trial<'_> {
    /// Attacks what each party would receive, and records the results in the report.
    ///
    /// # Errors
    /// The weights do not fit, results cannot be written, or the user stopped the attempts.
    pub(super) fn run(&self, report: &mut Report, out: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        for viewer in [Viewer::Server, Viewer::Client, Viewer::DishonestServer] {
            let Some(view) = report.views.iter_mut().find(|view| view.viewer == viewer) else { continue };
            let attacks = view.worth_trying(self.with_searches);
            view.not_tried = self.not_run.clone().or_else(|| self.deployment.obstacle(viewer, self.updates));
            if view.not_tried.is_some() || attacks.is_empty() {
                continue;
            }
            let folder = out.join(format!("tried-{viewer}"));
            let rows = self.rows(viewer, &attacks, &folder, interrupt)?;
            for attack in attacks {
                let of_attack: Vec<&MatrixRow> = rows.iter().filter(|row| row.attack == attack).collect();
                report.tried(viewer, attack, tried(&folder, &of_attack));
            }
        }
        Ok(())
    }

    fn rows(
        &self,
        viewer: Viewer,
        attacks: &[InferenceAttack],
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Vec<MatrixRow>, Failure> {
        let Deployment { model, .. } = self.deployment;
        let rule = self.deployment.trial_rule(viewer);
        let Some(sight) = self.deployment.sight(viewer) else { return Ok(Vec::new()) };
        let defence = sight.defence;
        let (batch, sum, threat) = match viewer {
            Viewer::DishonestServer => (self.deployment.batch, self.deployment.summed(), ThreatModel::Fishing),
            _ => (sight.pictures(), 1, ThreatModel::Honest),
        };
        let settings = MatrixSettings {
            model,
            attacks: attacks.to_vec(),
            defences: vec![defence],
            seed: self.seed,
            seeds: 1,
            iterations: None,
            step: None,
            rounds: ROUNDS,
            rate: RATE,
            rule,
            batch,
            sum,
            threats: vec![threat],
        };
        let side = model.side();
        let pictures = (0..self.updates * batch * sum).map(|number| {
            let picture = Picture::from_hwc(side, side, &synthetic_picture(side, number as u64));
            picture.map(|picture| (format!("synthetic-{number:03}"), picture))
        });
        let pictures = pictures.collect::<Result<Vec<_>, _>>().map_err(|error| Failure::Other(error.into()))?;
        let (state, notes) = load_start(self.start, model, self.seed).map_err(|error| Failure::Input(error.into()))?;
        notes.iter().for_each(|note| eprintln!("{note}"));
        let device = OpenDevice::cpu();
        let request = MatrixRequest {
            settings: &settings,
            pictures: &pictures,
            start: Some(&state),
            device: &device,
            threads: None,
            commit: commit(),
            out: folder,
        };
        let mut bar = Bar::new();
        let done = run(&request, &mut |event: MatrixEvent<'_>| {
            bar.show(event);
            interrupt.flow()
        });
        bar.clear();
        let done = done?;
        if done.rows.len() < done.planned {
            return Err(Failure::Other(anyhow!("stopped; the predictions are written, and the same command resumes")));
        }
        Ok(done.rows)
    }
}

/// The results of one attack on every update.
fn tried(folder: &Path, rows: &[&MatrixRow]) -> Tried {
    let count = |is: &dyn Fn(&Verdict) -> bool| rows.iter().filter(|row| is(&row.verdict)).count();
    let mut psnr: Vec<f64> = rows.iter().filter_map(|row| row.psnr).collect();
    psnr.sort_by(f64::total_cmp);
    let files = rows.iter().find_map(|row| example(folder, row));
    let example = files.and_then(|[truth, found]| Some([fs::read(truth).ok()?, fs::read(found).ok()?]));
    Tried {
        updates: rows.len(),
        recognisable: count(&|verdict| *verdict == Verdict::Recognisable),
        not_recognisable_by_this_attack: count(&|verdict| *verdict == Verdict::NotRecognisableByThisAttack),
        cannot_tell: count(&|verdict| verdict.because().is_some()),
        psnr: psnr.get(psnr.len() / 2).copied(),
        because: rows.iter().find_map(|row| row.verdict.because().map(str::to_owned)),
        example,
    }
}
