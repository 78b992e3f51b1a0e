//! Square pictures of one size with class labels.

use crate::Picture;

/// Pictures `[n, side, side, 3]` as bytes, and a label for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    side: usize,
    classes: Vec<String>,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

const MAX_SIDE: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelledError {
    #[error("pictures of {0} x {0} pixels cannot be kept; their side must be from 1 to {MAX_SIDE}")]
    Side(usize),
    #[error("{pixels} bytes are not the pictures of {labels} labels: each has {each} bytes ({side} x {side} RGB)")]
    Pixels { pixels: usize, labels: usize, each: usize, side: usize },
    #[error("picture {index} has label {label}, but there are {classes} classes")]
    Label { index: usize, label: u8, classes: usize },
}

impl Labelled {
    /// Takes pictures `[n, side, side, 3]`, row-major, and `n` labels, each below the number of classes.
    ///
    /// # Errors
    /// [`LabelledError`]: the numbers do not match.
    pub fn new(side: usize, classes: Vec<String>, pixels: Vec<u8>, labels: Vec<u8>) -> Result<Self, LabelledError> {
        if side == 0 || side > MAX_SIDE {
            return Err(LabelledError::Side(side));
        }
        let each = side * side * 3;
        if pixels.len() != labels.len() * each {
            return Err(LabelledError::Pixels { pixels: pixels.len(), labels: labels.len(), each, side });
        }
        if let Some((index, &label)) =
            labels.iter().enumerate().find(|(_, label)| usize::from(**label) >= classes.len())
        {
            return Err(LabelledError::Label { index, label, classes: classes.len() });
        }
        Ok(Self { side, classes, pixels, labels })
    }

    pub fn len(&self) -> usize {
        self.labels.len()
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Side of each picture in pixels.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Class names, by label.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Picture `index` as RGB bytes `[side, side, 3]`; `None` if there is no such picture.
    pub fn rgb(&self, index: usize) -> Option<&[u8]> {
        let bytes = self.side * self.side * 3;
        let start = index.checked_mul(bytes)?;
        self.pixels.get(start..start.checked_add(bytes)?)
    }

    /// Picture `index` as model input, `[3, side, side]` in [0, 1]; `None` if there is no such picture.
    pub fn chw(&self, index: usize) -> Option<Vec<f32>> {
        let rgb = self.rgb(index)?;
        let channel = |c: usize| rgb.iter().skip(c).step_by(3).map(|&byte| f32::from(byte) / 255.0);
        Some((0..3).flat_map(channel).collect())
    }

    /// Picture `index` as input of a model with image side `side`, `[3, side, side]` in [0, 1]; `None` if there is no
    /// such picture or `side` is zero. If the sides differ, a triangle filter resizes it: bilinear when it grows, an
    /// average when it shrinks.
    pub fn chw_resized(&self, index: usize, side: usize) -> Option<Vec<f32>> {
        if side == self.side {
            return self.chw(index);
        }
        let picture = self.picture(index)?;
        (side > 0).then(|| picture.for_model(side))
    }

    /// Picture `index`, for display or saving; `None` if there is no such picture.
    pub fn picture(&self, index: usize) -> Option<Picture> {
        Picture::new(self.side, self.side, self.rgb(index)?.to_vec()).ok()
    }

    /// The pictures at these indices, in this order. Skips indices out of range.
    #[must_use]
    pub fn subset(&self, indices: &[usize]) -> Self {
        let there = || indices.iter().filter(|index| **index < self.len());
        Self {
            side: self.side,
            classes: self.classes.clone(),
            pixels: there().filter_map(|&index| self.rgb(index)).flatten().copied().collect(),
            labels: there().filter_map(|&index| self.labels.get(index)).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Labelled {
        let pixels = (0..2 * 2 * 2 * 3).map(|byte| byte * 10).collect();
        Labelled::new(2, vec!["a".into(), "b".into()], pixels, vec![1, 0]).unwrap()
    }

    #[test]
    fn channels_come_apart() {
        let set = two();
        let chw: Vec<u8> = set.chw(1).unwrap().iter().map(|value| (value * 255.0).round() as u8).collect();
        assert_eq!(chw, [120, 150, 180, 210, 130, 160, 190, 220, 140, 170, 200, 230]);
        assert_eq!(set.chw(2), None);
        assert_eq!(set.rgb(usize::MAX), None);
        let swapped = set.subset(&[1, 0, 5]);
        assert_eq!((swapped.labels(), swapped.rgb(0), swapped.len()), (&[0, 1][..], set.rgb(1), 2));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let classes = || vec!["a".to_owned()];
        let error = Labelled::new(2, classes(), vec![0; 13], vec![0]).unwrap_err();
        assert_eq!(error.to_string(), "13 bytes are not the pictures of 1 labels: each has 12 bytes (2 x 2 RGB)");
        let error = Labelled::new(1, classes(), vec![0; 6], vec![0, 1]).unwrap_err();
        assert_eq!(error.to_string(), "picture 1 has label 1, but there are 1 classes");
        for side in [0, usize::MAX] {
            assert_eq!(Labelled::new(side, classes(), vec![], vec![]), Err(LabelledError::Side(side)));
        }
    }

    #[test]
    fn another_side_is_resized() {
        let set = two();
        assert_eq!(set.chw_resized(0, 2), set.chw(0));
        let one = set.chw_resized(0, 1).unwrap();
        let means = [45.0, 55.0, 65.0].map(|mean| mean / 255.0);
        assert!(one.iter().zip(means).all(|(value, mean)| (value - mean).abs() < 1e-6), "{one:?}");
        assert_eq!(set.chw_resized(1, 5).unwrap().len(), 75);
        assert_eq!((set.chw_resized(0, 0), set.chw_resized(2, 5)), (None, None));
    }
}
