//! The trade-off during a lesson: a few defences in parallel, one seed, and each point as soon as it is measured.

use std::{ops::ControlFlow, path::Path};

use unmask_core::{Architecture, ModelState, TradeOffPoint};
use unmask_data::{
    Picture,
    datasets::{DataSet, Source},
};
use unmask_model::device::OpenDevice;
use unmask_simulation::{Config, Simulation};

use super::{
    curve,
    leakage::{Leaks, Target, methods},
    plans::{PLANS, architecture, photographs},
};
use crate::{
    catalogue::Scale,
    defences::TRADE_OFF_IN_SHORT,
    error::ExperimentError,
    matrix::{self, MatrixRequest},
    plan::{Case, TrainingPlan},
};

/// Number of sample photographs to attack; few, because a class is waiting.
const PHOTOGRAPHS: usize = 2;
/// The largest seed of a config, because TOML integers have 63 bits and a sign.
const SEEDS: u64 = i64::MAX as u64;
/// Rounds between two points of a defence.
const STEP: u32 = 15;

/// The trade-off of no defence, R = 0.5 and R = 0.95 on generated shapes. The settings are those of `unmask reproduce
/// trade-off` at `scale`, with one seed, two photographs, and as many test pictures as the study's intermediate tests.
#[derive(Debug)]
pub struct LiveTradeOff<'a> {
    pub scale: Scale,
    /// Seed of weights, shapes, masks and the order of pictures. The highest bit is ignored.
    pub seed: u64,
    pub device: &'a OpenDevice,
    pub threads: usize,
}

/// Receives points, and may end the run.
pub type OnPoint<'a> = &'a mut dyn FnMut(TradeOffPoint) -> ControlFlow<()>;

struct Robots<'a> {
    case: &'a Case,
    config: Config,
    architecture: Architecture,
    simulation: Simulation<'a>,
    /// At the initial weights, and at the trained ones once they exist.
    leaks: [Vec<Leaks>; 2],
    accuracy: Option<f64>,
}

impl LiveTradeOff<'_> {
    /// Attacks new models, trains them in parallel, and attacks them again. Calls `on_point` with the point of a
    /// defence whenever it has changed.
    ///
    /// # Errors
    /// [`ExperimentError`] if a model cannot be trained or attacked.
    pub fn run(&self, on_point: OnPoint<'_>) -> Result<(), ExperimentError> {
        let plan = PLANS.at(self.scale);
        let data = DataSet::load(&Source::Generated, Path::new(""), self.seed)?;
        let mut photographs = photographs(self.scale)?;
        photographs.truncate(PHOTOGRAPHS);
        let in_short = |case: &&Case| TRADE_OFF_IN_SHORT.iter().any(|defence| defence.key == case.key);
        let cases = plan.cases.iter().filter(in_short);
        let mut all: Vec<Robots<'_>> =
            cases.map(|case| self.robots(&plan, case, &data)).collect::<Result<_, ExperimentError>>()?;
        for robots in &mut all {
            robots.measure()?;
            robots.leaks[0].push(self.leaks(robots, None, &photographs)?);
            if on_point(robots.point()).is_break() {
                return Ok(());
            }
        }
        while all.iter().any(|robots| robots.simulation.round() < robots.simulation.rounds()) {
            for robots in &mut all {
                for _ in 0..STEP {
                    robots.simulation.advance()?;
                }
                robots.measure()?;
                if on_point(robots.point()).is_break() {
                    return Ok(());
                }
            }
        }
        for robots in &mut all {
            let state = robots.simulation.state()?;
            robots.leaks[1].push(self.leaks(robots, Some(&state), &photographs)?);
            if on_point(robots.point()).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn robots<'a>(
        &self,
        plan: &TrainingPlan,
        case: &'a Case,
        data: &'a DataSet,
    ) -> Result<Robots<'a>, ExperimentError> {
        let config = Config { threads: Some(self.threads), ..plan.config(case, self.seed & SEEDS, &[])? };
        Ok(Robots {
            case,
            architecture: architecture(&config)?,
            simulation: Simulation::new(&config, data, self.device)?,
            config,
            leaks: [const { Vec::new() }; 2],
            accuracy: None,
        })
    }

    /// Results of closed forms on the photographs, at these weights or at the initial ones.
    fn leaks(
        &self,
        robots: &Robots<'_>,
        start: Option<&ModelState>,
        photographs: &[(String, Picture)],
    ) -> Result<Leaks, ExperimentError> {
        let defence = robots.config.defence;
        let target = Target {
            key: &robots.case.key,
            data: start.map(|_| robots.config.data.to_string()),
            case: &robots.case.key,
            defence,
            architecture: robots.architecture,
            start,
            methods: &methods(robots.architecture, defence, false),
            seed: robots.config.seed,
        };
        let folder =
            tempfile::tempdir().map_err(|source| ExperimentError::Io { path: std::env::temp_dir(), source })?;
        let request = MatrixRequest {
            settings: &target.settings(self.scale),
            pictures: photographs,
            start,
            device: self.device,
            threads: Some(self.threads),
            commit: None,
            out: folder.path(),
        };
        let outcome = matrix::run_rows(&request, &|_| true, &mut |_| ControlFlow::Continue(()))?;
        Ok(target.leaks(outcome.rows))
    }
}

impl Robots<'_> {
    fn measure(&mut self) -> Result<(), ExperimentError> {
        self.accuracy = Some(self.simulation.evaluate()?.accuracy);
        Ok(())
    }

    fn point(&self) -> TradeOffPoint {
        let [initial, trained] = &self.leaks;
        let best = curve::attackers(initial, trained);
        TradeOffPoint {
            defence: self.config.defence,
            rounds: self.simulation.round(),
            accuracy: self.accuracy,
            ssim: best.first().map(|best| best.ssim.mean as f32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(seed: u64, most: usize) -> Vec<TradeOffPoint> {
        let mut points = Vec::new();
        let device = OpenDevice::cpu();
        let live = LiveTradeOff { scale: Scale::Tiny, seed, device: &device, threads: 1 };
        live.run(&mut |point| {
            points.push(point);
            if points.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
        points
    }

    #[test]
    fn each_defence_is_attacked_fresh_trained_and_attacked_again() {
        let points = points(3, usize::MAX);
        let defences: Vec<String> = points[..3].iter().map(|point| point.defence.to_string()).collect();
        assert_eq!(defences, ["none", "random-binary:0.5", "random-binary:0.95"]);
        assert!(points[..3].iter().all(|point| point.rounds == 0), "{points:?}");
        let last = &points[points.len() - 3..];
        assert!(last.iter().all(|point| point.rounds > 0), "{points:?}");
        for point in &points {
            assert!(point.accuracy.is_some_and(|accuracy| (0.0..=1.0).contains(&accuracy)), "{point:?}");
        }
        let ssim: Vec<f32> = last.iter().map(|point| point.ssim.unwrap()).collect();
        assert!(ssim[0] > 0.99 && ssim[2] < ssim[0], "{ssim:?}");
    }

    #[test]
    fn it_ends_when_nobody_wants_another_point() {
        assert_eq!(points(3, 2).len(), 2);
    }

    /// A relay draws seeds of 64 bits, half of which do not fit into a config.
    #[test]
    fn every_seed_will_do() {
        for seed in [0, SEEDS, SEEDS + 1, u64::MAX] {
            assert_eq!(points(seed, 1).len(), 1, "{seed}");
        }
    }
}
