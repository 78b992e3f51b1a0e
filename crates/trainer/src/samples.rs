//! The pictures a native client trains on.

use std::{path::Path, sync::Arc};

use anyhow::{Context, bail};
use rust_embed::RustEmbed;
use tracing::{info, warn};
use unmask_client::Shard;
use unmask_data::{CLASSES, Picture, chw_to_hwc, class_in_name, decode, load_folder};

/// A picture with its class. It never leaves this machine.
#[derive(Debug, Clone)]
pub struct Sample {
    /// File name without extension.
    pub name: String,
    /// The picture.
    pub picture: Picture,
    /// Its class, an index into [`CLASSES`].
    pub label: usize,
}

impl Sample {
    /// A sample whose label is the class that its name contains, such as `cat` in `my-cat-3`; without one, `position`
    /// decides. A wrong label is no obstacle to a lesson: the attacks do not need it.
    pub fn named(name: String, picture: Picture, position: usize) -> Self {
        let known = class_in_name(&name);
        let label = known.unwrap_or(position % CLASSES.len());
        info!("{name}: class {}{}", CLASSES[label], if known.is_some() { "" } else { " (by its place)" });
        Self { name, picture, label }
    }
}

/// Reads a folder of PNG, JPEG and WebP files; see [`Sample::named`] for their labels.
///
/// # Errors
/// If the folder cannot be listed or nothing in it is a picture. Single files that are none are only warned of.
pub fn load_samples(folder: &Path) -> anyhow::Result<Vec<Sample>> {
    let folder = load_folder(folder)?;
    for (path, failure) in &folder.failures {
        warn!("{} is left out: {failure}", path.display());
    }
    let samples = folder.pictures.into_iter().enumerate();
    Ok(samples.map(|(position, (name, picture))| Sample::named(name, picture, position)).collect())
}

/// The photographs of the page's gallery; their sources and licences stand beside them.
#[derive(RustEmbed)]
#[folder = "../../www/samples"]
#[include = "*.png"]
#[include = "*.jpg"]
struct Photographs;

/// The sample photographs, for a client without a folder.
///
/// # Errors
/// If one of them cannot be decoded, which a test rules out.
pub fn sample_photographs() -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for (position, file) in Photographs::iter().enumerate() {
        let bytes = Photographs::get(&file).with_context(|| format!("{file} is not in this program"))?;
        let picture = decode(&bytes.data).with_context(|| format!("the sample photograph {file}"))?;
        let name = file.rsplit_once('.').map_or(file.as_ref(), |(stem, _)| stem).to_owned();
        samples.push(Sample::named(name, picture, position));
    }
    Ok(samples)
}

/// One batch as the model wants it, and as a reconstruction is compared with it.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    /// `[batch, 3, side, side]` in `[0, 1]`.
    pub(crate) chw: Vec<f32>,
    /// `[batch]`.
    pub(crate) labels: Vec<usize>,
    /// The one picture in it as `[side, side, 3]`; none where there are several, for what is found of a mixture cannot
    /// be compared with any of them.
    pub(crate) only: Option<Vec<f32>>,
}

impl Inputs {
    /// Pictures of a batch of a shard, resized for a model of `side`.
    ///
    /// # Errors
    /// In words, if a picture is not there; the client has checked the shard as it came.
    pub(crate) fn shared(shard: &Shard, positions: &[usize], side: usize) -> Result<Self, String> {
        let (mut chw, mut labels) = (Vec::new(), Vec::new());
        for &position in positions {
            let rgb = shard.rgb(position).zip(shard.labels().get(position));
            let (rgb, label) = rgb.ok_or_else(|| format!("the shard has no picture {position}"))?;
            let picture = Picture::new(shard.side(), shard.side(), rgb.to_vec()).map_err(|error| error.to_string())?;
            chw.extend(picture.for_model(side));
            labels.push(usize::from(*label));
        }
        let only = (positions.len() == 1).then(|| chw_to_hwc(&chw, side, side));
        Ok(Self { chw, labels, only })
    }

    fn new<'a>(samples: impl Iterator<Item = &'a Sample>, side: usize, is_one: bool) -> Self {
        let mut inputs = Self { chw: Vec::new(), labels: Vec::new(), only: None };
        for sample in samples {
            let chw = sample.picture.for_model(side);
            if is_one && inputs.only.is_none() {
                inputs.only = Some(chw_to_hwc(&chw, side, side));
            }
            inputs.chw.extend(chw);
            inputs.labels.push(sample.label);
        }
        inputs
    }
}

/// Deals the samples out.
#[derive(Debug)]
pub(crate) struct Batches {
    samples: Vec<Sample>,
    next: usize,
    /// All samples at the side last asked for, since resizing a folder takes longer than a step.
    all: Option<(usize, Arc<Inputs>)>,
}

impl Batches {
    pub(crate) fn new(samples: Vec<Sample>) -> anyhow::Result<Self> {
        if samples.is_empty() {
            bail!("a client needs at least one picture to train on");
        }
        Ok(Self { samples, next: 0, all: None })
    }

    /// The next batch, round and round.
    pub(crate) fn next(&mut self, side: usize, batch: usize) -> Inputs {
        let is_one = batch == 1 || self.samples.len() == 1;
        let inputs = Inputs::new(self.samples.iter().cycle().skip(self.next).take(batch), side, is_one);
        self.next = (self.next + batch) % self.samples.len();
        inputs
    }

    /// Every sample once, in order.
    pub(crate) fn all(&mut self, side: usize) -> Arc<Inputs> {
        match &self.all {
            Some((at, inputs)) if *at == side => Arc::clone(inputs),
            _ => {
                let inputs = Arc::new(Inputs::new(self.samples.iter(), side, self.samples.len() == 1));
                self.all = Some((side, Arc::clone(&inputs)));
                inputs
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, position: usize) -> Sample {
        Sample::named(name.to_owned(), Picture::new(2, 2, vec![position as u8 * 50; 12]).unwrap(), position)
    }

    #[test]
    fn label_is_the_class_in_the_name() {
        assert_eq!(sample("my-Cat-3", 0).label, 3);
        assert_eq!(sample("coffee", 12).label, 2);
    }

    #[test]
    fn photographs_are_built_in() {
        let samples = sample_photographs().unwrap();
        assert!(samples.len() >= 4);
        assert!(samples.iter().any(|sample| sample.name == "cat" && sample.label == 3));
    }

    #[test]
    fn batches_go_round() {
        let mut batches = Batches::new(vec![sample("a", 0), sample("b", 1), sample("c", 2)]).unwrap();
        assert_eq!(batches.next(2, 2).labels, [0, 1]);
        let second = batches.next(2, 2);
        assert_eq!(second.labels, [2, 0]);
        assert_eq!((second.chw.len(), second.only), (24, None));
        assert_eq!(batches.next(2, 1).only.unwrap().len(), 12);
        batches.next(2, 2);
        assert_eq!(batches.next(2, 7).labels, [1, 2, 0, 1, 2, 0, 1]);
        assert!(Batches::new(Vec::new()).is_err());
        // Several times the same picture is one picture.
        let mut alone = Batches::new(vec![sample("a", 0)]).unwrap();
        assert!(alone.next(2, 3).only.is_some() && alone.all(2).only.is_some());
    }

    #[test]
    fn all_of_them_come_once_and_in_order() {
        let mut batches = Batches::new(vec![sample("a", 0), sample("b", 1), sample("c", 2)]).unwrap();
        batches.next(2, 2);
        let (small, large) = (batches.all(2), batches.all(4));
        assert_eq!(small.labels, [0, 1, 2]);
        assert_eq!((small.chw.len(), large.chw.len()), (36, 144));
        assert!(Arc::ptr_eq(&large, &batches.all(4)));
    }
}
