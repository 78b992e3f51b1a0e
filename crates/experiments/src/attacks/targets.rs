//! The pictures that are attacked.

use unmask_data::datasets::{DataSet, Source};
use unmask_data::{Picture, PictureError, chw_to_hwc};

use super::pictures;
use crate::{bench::Bench, catalogue::Scale, error::PapersError};

/// A picture that must not be seen.
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
fn data(bench: &Bench<'_, '_>) -> Result<DataSet, PapersError> {
    let source = if bench.request.scale == Scale::Tiny { Source::Generated } else { Source::Cifar10 };
    let (data, wanted) = (bench.load(&source)?, pictures(bench.request.scale));
    match data.test.len() {
        found if found < wanted => Err(PapersError::TooFewPictures { name: data.name, wanted, found }),
        _ => Ok(data),
    }
}

/// The pictures as a model of this side sees them.
pub(super) fn targets(bench: &Bench<'_, '_>, side: usize) -> Result<Vec<Target>, PapersError> {
    let data = data(bench)?;
    let target = |index: usize| {
        let chw = data.test.chw_resized(index, side)?;
        let hwc = chw_to_hwc(&chw, side, side);
        Some(Target { name: name(&data, index), label: usize::from(*data.test.labels().get(index)?), chw, hwc })
    };
    Ok((0..pictures(bench.request.scale)).filter_map(target).collect())
}

/// The same for those who resize themselves, by name.
pub(super) fn named_pictures(bench: &Bench<'_, '_>) -> Result<Vec<(String, Picture)>, PapersError> {
    let data = data(bench)?;
    let side = data.test.side();
    let picture = |index: usize| Some((name(&data, index), data.test.rgb(index)?.to_vec()));
    (0..pictures(bench.request.scale))
        .filter_map(picture)
        .map(|(name, rgb)| Ok((name, Picture::new(side, side, rgb)?)))
        .collect::<Result<_, PictureError>>()
        .map_err(|error| PapersError::Attack { what: "the test pictures".to_owned(), reason: error.to_string() })
}

/// Its place in the test half, and its class.
fn name(data: &DataSet, index: usize) -> String {
    let class = data.test.labels().get(index).and_then(|&label| data.test.classes().get(usize::from(label)));
    format!("{index:05}-{}", class.map_or("", String::as_str))
}
