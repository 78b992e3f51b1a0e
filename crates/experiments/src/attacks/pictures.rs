//! The attacked pictures.

use unmask_data::datasets::{DataSet, Source};
use unmask_data::{Picture, PictureError};

use crate::{catalogue::Scale, error::ExperimentError, run::ExperimentRun};

/// Number of pictures to attack, as in the papers.
pub(super) fn wanted(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 6,
        Scale::Quick => 6,
        Scale::Small | Scale::Paper => 15,
    }
}

/// The first test pictures with their names: from CIFAR-10, or generated at the tiny scale.
pub(super) fn named_pictures(run: &ExperimentRun<'_, '_>) -> Result<Vec<(String, Picture)>, ExperimentError> {
    let source = if run.request.scale == Scale::Tiny { Source::Generated } else { Source::Cifar10 };
    let (data, wanted) = (run.request.load(&source)?, wanted(run.request.scale));
    if data.test.len() < wanted {
        let (name, found) = (data.name, data.test.len());
        return Err(ExperimentError::TooFewPictures { name, wanted, found });
    }
    let side = data.test.side();
    let picture = |index: usize| Some((name(&data, index), data.test.rgb(index)?.to_vec()));
    (0..wanted)
        .filter_map(picture)
        .map(|(name, rgb)| Ok((name, Picture::new(side, side, rgb)?)))
        .collect::<Result<_, PictureError>>()
        .map_err(|error| ExperimentError::Attack { what: "the test pictures".to_owned(), reason: error.to_string() })
}

fn name(data: &DataSet, index: usize) -> String {
    let class = data.test.labels().get(index).and_then(|&label| data.test.classes().get(usize::from(label)));
    format!("{index:05}-{}", class.map_or("", String::as_str))
}
