//! Membership: whether the teacher's picture was in the client's update.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_attack::{GoOn, Membership, Searches, WholeUpdate};
use unmask_core::{ClientId, Defence, MembershipVerdict, PictureAddress};
use unmask_data::{ImageError, NotAPicture, Picture, chw_to_hwc, decode, encode_png};
use unmask_wire::view::MembershipView;

use super::{
    about::About,
    job::Job,
    report::{Failure, NoResult},
};

/// A picture at the model's size.
#[derive(Debug)]
pub struct CandidatePicture {
    /// `[side, side, 3]` in [0, 1].
    pub(crate) values: Vec<f32>,
    pub(crate) png: Vec<u8>,
    /// The client that shows it to the class.
    pub(crate) owner: Option<ClientId>,
    /// Whether these are exactly the values that its owner trains on.
    pub(crate) is_exact: bool,
}

/// Why a file cannot be the candidate, as a clause.
#[derive(Debug, thiserror::Error)]
pub enum NoCandidate {
    #[error(transparent)]
    File(#[from] NotAPicture),
    #[error(transparent)]
    Encoding(#[from] ImageError),
}

impl CandidatePicture {
    /// Decodes a picture file as a model of image side `side` sees it. Takes a while.
    ///
    /// # Errors
    /// If the file is no picture, or cannot be encoded as PNG.
    pub fn read(file: &[u8], side: usize) -> Result<Self, NoCandidate> {
        Ok(Self::copy(&decode(file)?, side)?)
    }

    /// A copy of a picture as a model of image side `side` sees it.
    ///
    /// # Errors
    /// If it cannot be encoded as PNG.
    pub fn copy(picture: &Picture, side: usize) -> Result<Self, ImageError> {
        let values = chw_to_hwc(&picture.for_model(side), side, side);
        let png = encode_png(&picture.thumbnail(side))?;
        Ok(Self { values, png, owner: None, is_exact: false })
    }
}

/// A picture that may have been in an update.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// Counts the teacher's pictures.
    pub(crate) number: u64,
    /// `[side, side, 3]` in [0, 1], at the model's size.
    pub(crate) values: Vec<f32>,
}

/// The answer to whether a picture was in the update.
#[derive(Debug, Serialize, Deserialize)]
pub struct MembershipAnswer {
    pub(crate) verdict: MembershipVerdict,
    /// Length of the candidate's class token outside the span of those in the update, relative to its own length.
    pub(crate) residual: f64,
    /// Central 95 % interval of the residual.
    pub(crate) interval: [f64; 2],
    /// Residuals of altered copies of the candidate, ascending.
    pub(crate) distractors: Vec<f64>,
    pub(crate) sentence: String,
}

/// The card that shows the answer.
#[derive(Debug, Default)]
pub(super) struct MembershipCard {
    view: Option<MembershipView>,
    /// Counts the teacher's pictures.
    pictures: u64,
    /// Number of the update behind the last answer.
    serial: u64,
}

impl MembershipCard {
    /// The card, while there is a picture.
    pub(super) fn view(&self) -> Option<&MembershipView> {
        self.view.as_ref()
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.pictures += 1;
        self.pictures
    }

    pub(super) fn ask(&mut self, picture: PictureAddress, owner: Option<ClientId>, is_exact: bool) {
        self.view = Some(MembershipView { picture, owner, is_exact, ..MembershipView::default() });
    }

    /// Whether this client shows the picture.
    pub(super) fn is_of(&self, client: ClientId) -> bool {
        self.view.as_ref().is_some_and(|view| view.owner == Some(client))
    }

    pub(super) fn forget_picture(&mut self) {
        self.view = None;
    }

    /// Clears the answer for the old model. The picture stays.
    pub(super) fn forget_answer(&mut self) {
        self.view = self.view.take().map(|view| blank(&view));
    }

    /// Clears the answer if it is about this client.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        if self.view.as_ref().is_some_and(|view| view.client == client) {
            self.forget_answer();
        }
    }

    /// Shows the answer for the picture of this number, unless there is a newer picture or an answer for a newer
    /// update.
    pub(super) fn show(
        &mut self,
        about: &About,
        number: u64,
        outcome: Result<MembershipAnswer, Failure>,
        nickname: String,
    ) {
        if number != self.pictures || about.serial < self.serial {
            return;
        }
        self.serial = about.serial;
        let Some(asked) = &self.view else { return };
        let mut view = MembershipView {
            round: about.round,
            client: about.client,
            nickname,
            defence: about.defence,
            ..blank(asked)
        };
        match outcome {
            Ok(MembershipAnswer { verdict, residual, interval, distractors, sentence }) => {
                view.verdict = Some(verdict);
                (view.residual, view.interval, view.distractors) = (Some(residual), Some(interval), distractors);
                view.remark = Some(sentence);
            }
            Err(reason) => view.remark = Some(NoResult::Cannot(reason).to_string()),
        }
        self.view = Some(view);
    }
}

/// The card before an answer.
fn blank(view: &MembershipView) -> MembershipView {
    let MembershipView { picture, owner, is_exact, .. } = view;
    MembershipView { picture: picture.clone(), owner: *owner, is_exact: *is_exact, ..MembershipView::default() }
}

/// Asks whether `candidate` was in the update, using `searches` to run the model of `whole`. `go_on` may stop it early.
pub(super) fn ask(
    job: &Job,
    candidate: &Candidate,
    whole: Option<Arc<WholeUpdate>>,
    searches: &dyn Searches,
    go_on: GoOn<'_>,
) -> Result<MembershipAnswer, Failure> {
    if job.encryption.is_some() {
        return Err(Failure::Encrypted);
    }
    let mut observation = job.observation.clone();
    observation.whole = whole;
    let pictures = Some(observation.batch);
    let found = observation.membership(searches, &candidate.values, pictures, go_on)?;
    let numbers = [found.residual, found.interval.0, found.interval.1];
    if numbers.iter().chain(&found.distractors).any(|number| !number.is_finite()) {
        return Err(Failure::Incomparable);
    }
    Ok(answer(&found, job.about.defence))
}

fn answer(found: &Membership, defence: Defence) -> MembershipAnswer {
    let verdict = found.verdict;
    let end = match verdict {
        MembershipVerdict::Member => "It was among the client's pictures.",
        MembershipVerdict::Stranger => "It was not among the client's pictures.",
        MembershipVerdict::Undecided if defence.noise().is_some() => {
            "Whether it was among them cannot be told: noise was added to the update and hides the answer."
        }
        MembershipVerdict::Undecided => {
            "That is too much for one of its pictures and too little for any other picture: not all of them show, the \
             client took several steps, or the photograph is an altered copy."
        }
    };
    let likeness = match found.distractors.get(found.distractors.len() / 2) {
        Some(&median) => format!(", while {} of an altered copy does not", percent(median)),
        None => String::new(),
    };
    let sentence = format!(
        "The update shows {} {}. {} of the photograph does not fit {} (95 %: {} to {}){likeness}. {end}",
        found.batch,
        if found.batch.seen() == 1 { "picture" } else { "pictures" },
        percent(found.residual),
        if found.batch.seen() == 1 { "it" } else { "them" },
        percent(found.interval.0),
        percent(found.interval.1),
    );
    MembershipAnswer {
        verdict,
        residual: found.residual,
        interval: [found.interval.0, found.interval.1],
        distractors: found.distractors.clone(),
        sentence,
    }
}

/// Formats a share as a percentage with two significant digits.
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
    use unmask_attack::BatchSize;

    use super::*;

    fn found(residual: f64, verdict: MembershipVerdict) -> Membership {
        let interval = (residual * 0.9, residual * 1.1);
        let (distractors, batch) = (vec![0.02, 0.03, 0.04], BatchSize::Exactly(2));
        Membership { residual, interval, noise: 1e-6, strength: 1.0, floor: 0.0, distractors, batch, verdict }
    }

    #[test]
    fn verdict_carries_its_numbers() {
        let shown = answer(&found(0.00002, MembershipVerdict::Member), Defence::None);
        assert_eq!(
            shown.sentence,
            "The update shows 2 pictures. 0.0020 % of the photograph does not fit them (95 %: 0.0018 % to 0.0022 %), \
             while 3.0 % of an altered copy does not. It was among the client's pictures."
        );
        assert_eq!(percent(1e-15), "less than 0.00001 %");
        assert_eq!((percent(1.0).as_str(), percent(0.123).as_str()), ("100 %", "12 %"));
    }

    #[test]
    fn what_is_undecided_says_why() {
        let noise = "gaussian:eps=1,delta=0.5,clip=1".parse().unwrap();
        let sentence = |defence| answer(&found(0.9, MembershipVerdict::Undecided), defence).sentence;
        assert!(sentence(noise).contains("noise was added") && sentence(Defence::None).contains("several steps"));
    }

    fn about(client: u32, serial: u64) -> About {
        About {
            epoch: 0,
            serial,
            gathering: 0,
            client: ClientId(client),
            round: 3,
            defence: Defence::None,
            rule: unmask_core::Rule::FedSgd,
            samples: 1,
        }
    }

    /// Shows an answer, and returns the verdict on the card and whom it is about.
    fn show(card: &mut MembershipCard, about: &About, number: u64) -> (Option<MembershipVerdict>, ClientId) {
        card.show(about, number, Ok(answer(&found(0.1, MembershipVerdict::Member), about.defence)), "Ada".to_owned());
        card.view().map(|view| (view.verdict, view.client)).unwrap()
    }

    #[test]
    fn the_newest_answer_about_the_newest_picture_is_shown() {
        let mut card = MembershipCard::default();
        let [old, new] = [(); 2].map(|()| card.next_number());
        card.ask(PictureAddress::on_server("new.png"), None, true);
        assert_eq!(show(&mut card, &about(1, 5), old), (None, ClientId::default()));
        assert_eq!(show(&mut card, &about(1, 5), new), (Some(MembershipVerdict::Member), ClientId(1)));
        assert_eq!(show(&mut card, &about(2, 4), new).1, ClientId(1), "of an older update");
        assert_eq!(show(&mut card, &about(2, 6), new).1, ClientId(2));
        let next = card.next_number();
        card.ask(PictureAddress::on_server("next.png"), None, false);
        assert_eq!(show(&mut card, &about(2, 7), new).0, None);
        assert_eq!(show(&mut card, &about(2, 7), next).0, Some(MembershipVerdict::Member));
        card.forget_picture();
        assert!(card.view().is_none());
    }

    #[test]
    fn an_answer_goes_with_its_client_or_model_and_the_picture_stays() {
        let (mut card, owner) = (MembershipCard::default(), ClientId(5));
        let number = card.next_number();
        card.ask(PictureAddress::on_server("own.png"), Some(owner), true);
        assert!(card.is_of(owner) && !card.is_of(ClientId(1)));
        show(&mut card, &about(1, 1), number);
        card.forget_client(owner);
        assert!(card.view().unwrap().verdict.is_some());
        let asked = MembershipView {
            picture: PictureAddress::on_server("own.png"),
            owner: Some(owner),
            is_exact: true,
            ..Default::default()
        };
        card.forget_client(ClientId(1));
        assert_eq!(card.view(), Some(&asked));
        show(&mut card, &about(1, 2), number);
        card.forget_answer();
        assert_eq!(card.view(), Some(&asked));
    }
}
