//! The trade-off during a lesson: four settings of R side by side, one model, one attack and one seed, and each number
//! as soon as it is measured.

use std::{fs, ops::ControlFlow, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use unmask_core::{AttackMethod, PictureAddress, TradeOffColumn, TradeOffColumns};
use unmask_data::{
    Picture,
    datasets::{DataSet, Source},
};
use unmask_model::device::OpenDevice;
use unmask_simulation::{Config, Simulation};

use super::{
    leakage::Target,
    plans::{LIVE, architecture, photographs},
};
use crate::{
    catalogue::Scale,
    error::ExperimentError,
    matrix::{self, MatrixRequest, PICTURES},
    plan::{Case, TrainingPlan},
};

/// The photograph to attack; its outlines disappear in steps from column to column.
const PHOTOGRAPH: &str = "astronaut";
/// Knows the gaps, works at every R, and is exact without gaps.
const ATTACK: AttackMethod = AttackMethod::EmbeddingAware;
/// The largest seed of a config, because TOML integers have 63 bits and a sign.
const SEEDS: u64 = i64::MAX as u64;
/// Rounds between two tests of a model.
const STEP: u32 = 10;

/// The trade-off at R = 0, 0.5, 0.8 and 0.95: robots fine-tune the same weights on generated shapes, and an attacker
/// reads a sample photograph from an update at these weights.
#[derive(Debug)]
pub struct LiveTradeOff<'a> {
    pub scale: Scale,
    /// Seed of shapes, masks and the order of pictures. The highest bit is ignored.
    pub seed: u64,
    pub device: &'a OpenDevice,
    pub threads: usize,
}

/// Receives the columns whenever one has changed, and may end the run.
pub type OnColumns<'a> = &'a mut dyn FnMut(&TradeOffColumns) -> ControlFlow<()>;

impl LiveTradeOff<'_> {
    /// Calls `on_columns` with empty columns, fills them with pictures and with the accuracy of the initial weights, then
    /// trains all models in turn.
    ///
    /// # Errors
    /// [`ExperimentError`] if a model cannot be trained or attacked.
    pub fn run(&self, on_columns: OnColumns<'_>) -> Result<(), ExperimentError> {
        let plan = LIVE.at(self.scale);
        let configs = plan.cases.iter().map(|case| self.config(&plan, case)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = configs.first() else { return Ok(()) };
        let mut columns = empty(first, &configs)?;
        if on_columns(&columns).is_break() {
            return Ok(());
        }
        let data = DataSet::load(&Source::Generated, Path::new(""), first.seed)?;
        let mut robots =
            configs.iter().map(|config| Simulation::new(config, &data, self.device)).collect::<Result<Vec<_>, _>>()?;
        let photograph: Vec<(String, Picture)> =
            photographs(Scale::Small)?.into_iter().filter(|(name, _)| name == PHOTOGRAPH).collect();
        for (place, robots) in robots.iter().enumerate() {
            self.attack(robots, &photograph, &mut columns.columns[place])?;
            columns.columns[place].accuracy = Some(robots.evaluate()?.accuracy);
            if on_columns(&columns).is_break() {
                return Ok(());
            }
        }
        while robots.iter().any(|robots| robots.round() < robots.rounds()) {
            for (place, robots) in robots.iter_mut().enumerate() {
                for _ in robots.round()..robots.rounds().min(robots.round() + STEP) {
                    robots.step()?;
                }
                let column = &mut columns.columns[place];
                (column.rounds, column.accuracy) = (robots.round(), Some(robots.evaluate()?.accuracy));
                if on_columns(&columns).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn config(&self, plan: &TrainingPlan, case: &Case) -> Result<Config, ExperimentError> {
        Ok(Config { threads: Some(self.threads), ..plan.config(case, self.seed & SEEDS, &[])? })
    }

    /// Attacks the update of the photograph at the robots' weights.
    fn attack(
        &self,
        robots: &Simulation<'_>,
        photograph: &[(String, Picture)],
        column: &mut TradeOffColumn,
    ) -> Result<(), ExperimentError> {
        let state = robots.state()?;
        let case = column.defence.to_string();
        let target = Target {
            key: &case,
            data: None,
            case: &case,
            defence: column.defence,
            architecture: robots.architecture(),
            start: Some(&state),
            methods: &[ATTACK],
            seed: robots.config().seed,
        };
        let folder =
            tempfile::tempdir().map_err(|source| ExperimentError::Io { path: std::env::temp_dir(), source })?;
        let request = MatrixRequest {
            settings: &target.settings(self.scale),
            pictures: photograph,
            start: target.start,
            device: self.device,
            threads: Some(self.threads),
            commit: None,
            out: folder.path(),
        };
        let outcome = matrix::run_rows(&request, &|_| true, &mut |_| ControlFlow::Continue(()))?;
        let seen = outcome.rows.first().and_then(|row| Some((row.ssim?, row.pictures.first()?)));
        let (ssim, picture) = seen.ok_or_else(|| ExperimentError::Attack {
            what: format!("{ATTACK} under {case}"),
            reason: "the attack found no picture".to_owned(),
        })?;
        let path = folder.path().join(PICTURES).join(picture);
        let png = fs::read(&path).map_err(|source| ExperimentError::Io { path, source })?;
        column.ssim = Some(ssim as f32);
        column.picture = Some(PictureAddress::embedded(&STANDARD.encode(png)));
        Ok(())
    }
}

/// The columns before anything is measured.
fn empty(first: &Config, configs: &[Config]) -> Result<TradeOffColumns, ExperimentError> {
    let column = |config: &Config| TradeOffColumn {
        defence: config.defence,
        rounds: 0,
        accuracy: None,
        ssim: None,
        picture: None,
    };
    Ok(TradeOffColumns {
        model: first.model.clone(),
        robots: first.clients,
        test_pictures: first.test_pictures,
        chance: 1.0 / architecture(first)?.classes() as f64,
        is_recorded: false,
        columns: configs.iter().map(column).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(seed: u64, most: usize) -> Vec<TradeOffColumns> {
        let mut seen = Vec::new();
        let device = OpenDevice::cpu();
        let live = LiveTradeOff { scale: Scale::Tiny, seed, device: &device, threads: 1 };
        live.run(&mut |columns| {
            seen.push(columns.clone());
            if seen.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
        seen
    }

    #[test]
    fn columns_begin_empty_get_their_pictures_and_then_learn() {
        let seen = seen(3, usize::MAX);
        let [first, .., last] = &seen[..] else { panic!("{seen:?}") };
        let defences: Vec<String> = first.columns.iter().map(|column| column.defence.to_string()).collect();
        assert_eq!(defences, ["none", "random-binary:0.5", "random-binary:0.8", "random-binary:0.95"]);
        assert!(first.columns.iter().all(|column| column.accuracy.is_none() && column.picture.is_none()));
        assert_eq!((first.chance, first.robots), (0.1, 3));
        let attacked = &seen[4];
        assert!(attacked.columns.iter().all(|column| column.rounds == 0 && column.accuracy.is_some()), "{attacked:?}");
        for (column, before) in last.columns.iter().zip(&attacked.columns) {
            assert_eq!((column.rounds, column.ssim, &column.picture), (4, before.ssim, &before.picture));
            assert!(column.picture.as_ref().is_some_and(|it| it.starts_with("data:image/png;base64,")), "{column:?}");
        }
        let ssim: Vec<f32> = last.columns.iter().filter_map(|column| column.ssim).collect();
        assert!(ssim[0] > 0.99 && ssim[1] < 0.99 && ssim[3] < ssim[1], "{ssim:?}");
    }

    #[test]
    fn it_ends_when_nobody_wants_another_number() {
        assert_eq!(seen(3, 2).len(), 2);
    }

    /// A relay draws seeds of 64 bits, half of which do not fit into a config.
    #[test]
    fn every_seed_will_do() {
        for seed in [0, SEEDS, SEEDS + 1, u64::MAX] {
            assert_eq!(seen(seed, 1).len(), 1, "{seed}");
        }
    }

    /// The settings of a lesson are those of the room's own model, so that the class can compare.
    #[test]
    fn a_lesson_measures_the_checkpoint_that_comes_with_the_program() {
        let plan = LIVE.at(Scale::Quick);
        for config in plan.cases.iter().map(|case| plan.config(case, 1, &[]).unwrap()) {
            config.validate().unwrap();
            assert_eq!((config.start.to_string().as_str(), config.clients), ("pretrained", 4));
        }
    }
}
