//! What the runner asks of a study.

use unmask_simulation::{Config, ConfigError};

use crate::{
    catalogue::{About, Scale},
    cost::{self, Cost},
    error::ExperimentError,
    plan::TrainingPlan,
    report::Findings,
    request::{ExperimentRequest, Seeds},
    run::ExperimentRun,
};

/// An experiment of the papers, repeated. `studies.rs` lists them.
pub(crate) trait Study: Sync {
    fn about(&self) -> &About;

    /// The trainings that it compares; `None` if it compares none.
    fn plan(&self, _: Scale) -> Option<TrainingPlan> {
        None
    }

    /// The cases at the small scale, as formulas name them.
    fn cases(&self) -> Vec<String> {
        self.plan(Scale::Small).map_or(Vec::new(), |plan| plan.cases.into_iter().map(|case| case.key).collect())
    }

    /// Its trainings in one line; `None` if it has none.
    ///
    /// # Errors
    /// Its own settings are invalid.
    fn describe(&self, request: &ExperimentRequest<'_>) -> Result<Option<String>, ConfigError> {
        describe_plans(request, self.plan(request.scale).as_slice())
    }

    /// The cost of the papers' scale; `None` if a model's steps do not determine it.
    ///
    /// # Errors
    /// The model cannot be run, or the result cannot be saved.
    fn cost(&self, run: &ExperimentRun<'_, '_>) -> Result<Option<Cost>, ExperimentError> {
        self.plan(Scale::Paper).map_or(Ok(None), |plan| cost::of_trainings(run, &plan))
    }

    /// Computes the missing cases. Returns the findings, or `None` if only a part was requested.
    ///
    /// # Errors
    /// Pictures are missing, a computation failed, or the run was stopped.
    fn run(&self, run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError>;
}

/// Describes the trainings of several plans in one line: model, pictures, clients and rounds.
pub(crate) fn describe_plans(
    request: &ExperimentRequest<'_>,
    plans: &[TrainingPlan],
) -> Result<Option<String>, ConfigError> {
    let mut all = Vec::new();
    for plan in plans {
        let Some(config) = plan.first_config(request.seed, &[])? else { continue };
        let Seeds { least, most } = request.seeds(plan.seeds);
        let cases = plan.cases.len() as u64;
        let more = if most > least { format!(" to {}", cases * most) } else { String::new() };
        all.push(format!("{}{more} trainings, each of {}", cases * least, describe_training(&config, request.scale)));
    }
    Ok(Some(all.join("; ")).filter(|all| !all.is_empty()))
}

pub(crate) fn describe_training(config: &Config, scale: Scale) -> String {
    let Config { model, data, clients, rule, rounds, epochs, .. } = config;
    let length = match (rounds, epochs) {
        (Some(rounds), _) => format!("{rounds} rounds"),
        (None, epochs) => format!("{} epochs", epochs.unwrap_or(0)),
    };
    format!("{model} on {data} with {clients} clients for {length} of {rule} ({scale} scale)")
}
