//! Whether the picture that the teacher dropped was the client's.

use unmask_attack::{Membership, membership};
use unmask_core::{ClientId, Defence, MembershipVerdict};
use unmask_wire::view::MembershipView;

use super::{about::About, job::Job};

/// A picture as the model sees it.
#[derive(Debug)]
pub(crate) struct CandidatePicture {
    /// `[side, side, 3]` in [0, 1].
    pub(crate) values: Vec<f32>,
    pub(crate) png: Vec<u8>,
}

/// A picture that may have been in an update.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Counts the pictures dropped.
    pub(crate) number: u64,
    /// As the model sees it, `[side, side, 3]` in [0, 1].
    pub(crate) values: Vec<f32>,
}

/// What is known of a picture: was it in the update?
#[derive(Debug)]
pub(crate) struct MembershipAnswer {
    /// What it amounts to.
    pub(crate) verdict: MembershipVerdict,
    /// What the candidate leaves unexplained.
    pub(crate) residual: f64,
    /// Central 95 % of it.
    pub(crate) interval: [f64; 2],
    /// What pictures like it leave, ascending.
    pub(crate) distractors: Vec<f64>,
    /// The verdict in words.
    pub(crate) sentence: String,
}

/// What the room shows of it.
#[derive(Debug, Default)]
pub(super) struct MembershipCard {
    view: Option<MembershipView>,
    /// Counts the pictures dropped.
    pictures: u64,
    /// Number of the update of which it was last told.
    serial: u64,
}

impl MembershipCard {
    /// What was told last, while there is a picture.
    pub(super) fn view(&self) -> Option<&MembershipView> {
        self.view.as_ref()
    }

    /// The number of one more picture.
    pub(super) fn next_number(&mut self) -> u64 {
        self.pictures += 1;
        self.pictures
    }

    /// Asks for the picture under this path from now on.
    pub(super) fn ask(&mut self, path: String) {
        self.view = Some(blank(path));
    }

    /// There is no picture any more.
    pub(super) fn forget_picture(&mut self) {
        self.view = None;
    }

    /// A new model begins: nothing told of the old one is shown beside it. The picture stays.
    pub(super) fn forget_answer(&mut self) {
        self.view = self.view.take().map(|MembershipView { picture, .. }| blank(picture));
    }

    /// Forgets what was told of this client.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        if self.view.as_ref().is_some_and(|view| view.client == client) {
            self.forget_answer();
        }
    }

    /// Takes the answer on the picture of this number, unless there is a newer picture, or one on a newer update.
    pub(super) fn told(
        &mut self,
        about: &About,
        number: u64,
        outcome: Result<MembershipAnswer, String>,
        nickname: String,
    ) {
        if number != self.pictures || about.serial < self.serial {
            return;
        }
        self.serial = about.serial;
        let Some(MembershipView { picture, .. }) = self.view.take() else { return };
        let mut view = MembershipView {
            round: about.round,
            client: about.client,
            nickname,
            defence: about.defence,
            ..blank(picture)
        };
        match outcome {
            Ok(MembershipAnswer { verdict, residual, interval, distractors, sentence }) => {
                view.verdict = Some(verdict);
                (view.residual, view.interval, view.distractors) = (Some(residual), Some(interval), distractors);
                view.remark = Some(sentence);
            }
            Err(reason) => view.remark = Some(format!("Cannot, because {reason}.")),
        }
        self.view = Some(view);
    }
}

/// A card with nothing told yet.
fn blank(picture: String) -> MembershipView {
    MembershipView { picture, ..MembershipView::default() }
}

/// Asks whether `candidate` was in the update.
///
/// # Errors
/// Why that cannot be told.
pub(super) fn ask(job: &Job, candidate: &Candidate) -> Result<MembershipAnswer, String> {
    if job.encryption.is_some() {
        return Err("the embeddings are encrypted: what a picture causes can be compared with the update only by \
                    whoever has the key"
            .to_owned());
    }
    let found = job.observation.evidence().and_then(|evidence| membership(evidence, &candidate.values));
    let found = found.map_err(|error| error.to_string())?;
    let numbers = [found.residual, found.interval.0, found.interval.1];
    if numbers.iter().chain(&found.distractors).any(|number| !number.is_finite()) {
        return Err("the update's values are too large or too small to compare".to_owned());
    }
    Ok(answer(&found, job.about.samples, job.about.defence))
}

/// The verdict in words. A stranger's residual proves nothing where something else than a picture fills the update.
fn answer(found: &Membership, samples: u32, defence: Defence) -> MembershipAnswer {
    let median = found.distractors.get(found.distractors.len() / 2).copied().unwrap_or(1.0);
    let (verdict, end) = match found.verdict {
        MembershipVerdict::Member => (found.verdict, "It was among the client's pictures.".to_owned()),
        MembershipVerdict::Stranger if defence.noise().is_some() => (
            MembershipVerdict::Undecided,
            "That cannot be told from a stranger: noise was added to the update, and no picture explains noise."
                .to_owned(),
        ),
        MembershipVerdict::Stranger if samples > 1 => (
            MembershipVerdict::Undecided,
            format!(
                "That cannot be told from a stranger: {samples} pictures are mixed in this update, and each alone \
                 explains little of it."
            ),
        ),
        MembershipVerdict::Stranger => (found.verdict, "It was not the client's picture.".to_owned()),
        MembershipVerdict::Undecided => (
            MembershipVerdict::Undecided,
            "That is better than chance and worse than exact: an altered copy, one of several pictures, or one much \
             like the client's."
                .to_owned(),
        ),
    };
    let sentence = format!(
        "The picture explains all but {} of the update (95 %: {} to {}); pictures like it leave {}. {end}",
        percent(found.residual),
        percent(found.interval.0),
        percent(found.interval.1),
        percent(median),
    );
    MembershipAnswer {
        verdict,
        residual: found.residual,
        interval: [found.interval.0, found.interval.1],
        distractors: found.distractors.clone(),
        sentence,
    }
}

/// A share in per cent with two digits that count.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 1e-5 {
        return "less than 0.00001 %".to_owned();
    }
    let places = (1.0 - percent.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{percent:.places$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(residual: f64, verdict: MembershipVerdict) -> Membership {
        let interval = (residual * 0.9, residual * 1.1);
        Membership {
            residual,
            interval,
            distractors: vec![0.02, 0.03, 0.04],
            gradient: "patch_embed.proj.weight",
            verdict,
        }
    }

    #[test]
    fn verdict_carries_its_numbers() {
        let told = answer(&found(0.0002, MembershipVerdict::Member), 1, Defence::None);
        assert_eq!(
            told.sentence,
            "The picture explains all but 0.020 % of the update (95 %: 0.018 % to 0.022 %); pictures like it leave \
             3.0 %. It was among the client's pictures."
        );
        assert_eq!(percent(1e-15), "less than 0.00001 %");
        assert_eq!((percent(1.0).as_str(), percent(0.123).as_str()), ("100 %", "12 %"));
    }

    #[test]
    fn noise_and_batches_make_nobody_a_stranger() {
        let noise = "gaussian:eps=1,delta=0.5,clip=1".parse().unwrap();
        assert_eq!(
            answer(&found(0.9, MembershipVerdict::Stranger), 1, Defence::None).verdict,
            MembershipVerdict::Stranger
        );
        assert_eq!(answer(&found(0.9, MembershipVerdict::Stranger), 1, noise).verdict, MembershipVerdict::Undecided);
        assert_eq!(
            answer(&found(0.9, MembershipVerdict::Stranger), 2, Defence::None).verdict,
            MembershipVerdict::Undecided
        );
        assert_eq!(answer(&found(1e-4, MembershipVerdict::Member), 2, noise).verdict, MembershipVerdict::Member);
    }
}
