//! The pictures that are attacked.

use unmask_data::datasets::{DataSet, Source};
use unmask_data::{Picture, PictureError, chw_to_hwc};

use super::pictures;
use crate::{catalogue::Scale, error::ExperimentError, run::ExperimentRun};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) label: usize,
    /// `[3, side, side]` in [0, 1].
    pub(super) chw: Vec<f32>,
    /// `[side, side, 3]` in [0, 1].
    pub(super) hwc: Vec<f32>,
}

/// The first pictures of the test half, each with its name: CIFAR-10's, but for the tiny scale.
fn data(run: &ExperimentRun<'_, '_>) -> Result<DataSet, ExperimentError> {
    let source = if run.request.scale == Scale::Tiny { Source::Generated } else { Source::Cifar10 };
    let (data, wanted) = (run.request.load(&source)?, pictures(run.request.scale));
    match data.test.len() {
        found if found < wanted => Err(ExperimentError::TooFewPictures { name: data.name, wanted, found }),
        _ => Ok(data),
    }
}

/// The pictures as a model of this side sees them.
pub(super) fn targets(run: &ExperimentRun<'_, '_>, side: usize) -> Result<Vec<Target>, ExperimentError> {
    let data = data(run)?;
    let target = |index: usize| {
        let chw = data.test.chw_resized(index, side)?;
        let hwc = chw_to_hwc(&chw, side, side);
        Some(Target { name: name(&data, index), label: usize::from(*data.test.labels().get(index)?), chw, hwc })
    };
    Ok((0..pictures(run.request.scale)).filter_map(target).collect())
}

/// The same for those who resize themselves, by name.
pub(super) fn named_pictures(run: &ExperimentRun<'_, '_>) -> Result<Vec<(String, Picture)>, ExperimentError> {
    let data = data(run)?;
    let side = data.test.side();
    let picture = |index: usize| Some((name(&data, index), data.test.rgb(index)?.to_vec()));
    (0..pictures(run.request.scale))
        .filter_map(picture)
        .map(|(name, rgb)| Ok((name, Picture::new(side, side, rgb)?)))
        .collect::<Result<_, PictureError>>()
        .map_err(|error| ExperimentError::Attack { what: "the test pictures".to_owned(), reason: error.to_string() })
}

/// Its place in the test half, and its class.
fn name(data: &DataSet, index: usize) -> String {
    let class = data.test.labels().get(index).and_then(|&label| data.test.classes().get(usize::from(label)));
    format!("{index:05}-{}", class.map_or("", String::as_str))
}
