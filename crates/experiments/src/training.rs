//! Studies that compare trainings: each case with its seeds, then figures, tables and claims.

mod comparison;
mod findings;
mod run;
mod study;

#[cfg(test)]
pub(crate) use self::comparison::wide_cases;
pub(crate) use self::{
    comparison::{CaseRuns, Comparison, undefended},
    findings::Reported,
    run::{TestPoint, TrainingRun, train},
    study::{MEASURED, TrainingStudy},
};
