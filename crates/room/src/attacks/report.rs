//! Reports from the attacks to the room.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unmask_attack::AttackError;
use unmask_core::AttackMethod;
use unmask_data::{ImageError, Picture, PictureError, encode_png};
use unmask_wire::view::{GatheredView, SearchView};

use super::{about::About, candidate::MembershipAnswer, labels::Labels, sum::OfSum, tables::Tables};

#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// A finished attack's result on an update, or a running search's result so far.
    Found(Box<Finding>),
    /// An update was added to the gathered rounds, or the reason why not.
    Gathered(Box<About>, Result<GatheredView, Failure>),
    /// Labels, or the reason why they cannot be told.
    Labels(Box<About>, Result<Labels, Failure>),
    /// What leaks of a client, for the wall that shows everybody.
    Leak(Box<About>, Result<Seen, Failure>),
    /// What leaks of the sum whose first update is this one.
    Sum(Box<About>, OfSum),
    /// Whether the picture of this number was in the update, or the reason why that cannot be told.
    Membership(Box<About>, u64, Result<MembershipAnswer, Failure>),
    /// Attacks were skipped for lack of time.
    Skipped,
}

impl Report {
    /// The update that the report is about, if any.
    pub(super) fn about(&self) -> Option<&About> {
        match self {
            Self::Found(finding) => Some(&finding.about),
            Self::Gathered(about, _)
            | Self::Labels(about, _)
            | Self::Leak(about, _)
            | Self::Sum(about, _)
            | Self::Membership(about, ..) => Some(about),
            Self::Skipped => None,
        }
    }
}

/// Why an attack has no result, as a clause.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Attack(#[from] AttackError),
    #[error(transparent)]
    NoPicture(#[from] NoPicture),
    #[error("the embeddings are encrypted: only someone with the key can compare a picture with the update")]
    Encrypted,
    #[error("the update's values are too large or too small to compare")]
    Incomparable,
    #[error("its objective is no longer finite")]
    Diverged,
    /// A panic in `what`.
    #[error("{what} broke down on this update")]
    BrokeDown { what: &'static str },
    /// Told from elsewhere.
    #[error("{0}")]
    Told(String),
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Failure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::Told)
    }
}

/// Why an attack's output cannot be shown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoPicture {
    #[error("it made {values} values, which are not pictures of side {side}")]
    Size { values: usize, side: usize },
    #[error("its output has values that are not finite")]
    NotFinite,
    #[error(transparent)]
    Picture(#[from] PictureError),
    #[error(transparent)]
    Encoding(Arc<ImageError>),
}

/// Why an attack shows no picture, in a sentence for its card.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub enum NoResult {
    #[error("Cannot, because {}.", clause(.0))]
    Cannot(#[from] Failure),
    #[error("It stopped, because {}.", clause(.0))]
    Stopped(Failure),
    #[error("It has not made a picture yet.")]
    NotYet,
}

/// The reason without a full stop, which some reasons have.
fn clause(reason: &Failure) -> String {
    reason.to_string().trim_end_matches('.').to_owned()
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Finding {
    pub(crate) about: About,
    pub(crate) method: AttackMethod,
    /// Time taken so far.
    pub(crate) seconds: f64,
    pub(crate) outcome: Result<Seen, NoResult>,
    pub(crate) search: Option<SearchView>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Side of each picture in pixels.
    pub(crate) side: u16,
    /// Number of pictures side by side in the PNG.
    pub(crate) pictures: u16,
    /// `[pictures, side, side, 3]` in `[0, 1]`.
    pub(crate) values: Vec<f32>,
    /// All pictures in a row.
    pub(crate) png: Vec<u8>,
    pub(crate) remark: Option<String>,
    /// The tables that it was solved from, if the wall can show them.
    pub(crate) tables: Option<Tables>,
}

impl Seen {
    /// Encodes at least one picture, `[n, side, side, 3]`.
    ///
    /// # Errors
    /// If `values` do not hold such pictures.
    pub(super) fn new(side: usize, values: Vec<f32>, remarks: &[String]) -> Result<Self, NoPicture> {
        let len = 3 * side * side;
        let wrong = NoPicture::Size { values: values.len(), side };
        if len == 0 || values.is_empty() || !values.len().is_multiple_of(len) {
            return Err(wrong);
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err(NoPicture::NotFinite);
        }
        let count = values.len() / len;
        let row = |y: usize| (0..count).flat_map(move |n| n * len + y * 3 * side..n * len + (y + 1) * 3 * side);
        let in_a_row: Vec<f32> = (0..side).flat_map(row).map(|i| values[i]).collect();
        let picture = Picture::from_hwc(count * side, side, &in_a_row)?;
        let png = encode_png(&picture).map_err(|error| NoPicture::Encoding(Arc::new(error)))?;
        let (Ok(side), Ok(pictures)) = (u16::try_from(side), u16::try_from(count)) else { return Err(wrong) };
        let remark = (!remarks.is_empty()).then(|| remarks.join(" "));
        Ok(Self { side, pictures, values, png, remark, tables: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_side_by_side() {
        let values: Vec<f32> = (0..24).map(|i| i as f32 / 24.0).collect();
        let seen = Seen::new(2, values.clone(), &["One.".to_owned(), "Two.".to_owned()]).unwrap();
        assert_eq!((seen.side, seen.pictures, seen.remark.as_deref()), (2, 2, Some("One. Two.")));
        let picture = unmask_data::decode(&seen.png).unwrap();
        assert_eq!((picture.width(), picture.height()), (4, 2));
        let wanted = [0..6, 12..18, 6..12, 18..24].into_iter().flatten().map(|i| (values[i] * 255.0).round() as u8);
        assert_eq!(picture.rgb(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(Seen::new(2, vec![0.0; 13], &[]).unwrap_err().to_string().contains("13 values"));
        assert!(Seen::new(2, Vec::new(), &[]).is_err());
        assert!(matches!(Seen::new(1, vec![0.0, f32::NAN, 0.0], &[]), Err(NoPicture::NotFinite)));
    }
}
