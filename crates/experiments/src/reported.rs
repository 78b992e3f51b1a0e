//! Numbers from the papers, where available.

use crate::catalogue::Experiment;

pub(crate) const UNKNOWN: &str = "read off no table here";

/// The accuracy that a paper reports for a case, in percent.
///
/// FLRSP gives them below the restored pictures in Figs. 9 to 11, for its one CNN after ten epochs.
pub(crate) fn accuracy(experiment: Experiment, case: &str) -> Option<f64> {
    match (experiment, case) {
        (Experiment::ResnetFedsgd, case) => match case {
            "sgd/none" => Some(96.0),
            "sgd/r0.2" => Some(95.68),
            "sgd/r0.5" => Some(95.25),
            "sgd/r0.8" => Some(95.36),
            "sgd/eps1-printed" => Some(49.2),
            "sgd/eps4-printed" => Some(92.6),
            _ => None,
        },
        (Experiment::Encrypted, _) => Some(89.77),
        _ => None,
    }
}

/// The paper's number as a table cell, or the placeholder.
pub(crate) fn cell(percent: Option<f64>) -> String {
    percent.map_or_else(|| UNKNOWN.to_owned(), |percent| format!("{percent:.2}"))
}

/// SSIM of Inverting Gradients against ResNet34 at batch 1 for four pictures (FLRSP Figs. 9 to 11).
pub(crate) fn inverting_gradients(case: &str) -> Option<[f64; 4]> {
    Some(match case {
        "none" => [0.789, 0.746, 0.868, 0.830],
        "eps1-printed" => [0.087, 0.101, 0.677, 0.772],
        "eps4-printed" => [0.061, 0.110, 0.826, 0.844],
        "r0.2" => [0.237, 0.122, 0.160, 0.080],
        "r0.5" => [0.079, 0.005, 0.097, 0.050],
        "r0.8" => [0.017, 0.030, 0.010, 0.026],
        _ => return None,
    })
}
