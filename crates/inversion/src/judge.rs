//! The verdict on reconstructed pictures. It never goes beyond its evidence.

use unmask_attack::{
    AttackError, Misfit, Observation, Recovered, SAME_PICTURE, Searches, own_gradient, pixel_uncertainty,
};
use unmask_core::{AttackMethod, Knowledge, Verdict};
use unmask_data::metrics::RECOGNISABLE_FROM;

use crate::Score;

/// Why a picture from numbers that are no gradient shows nothing.
const NO_GRADIENT: &str =
    "all values of the update have one size: it is no gradient, and its equations are no picture's";

/// What is known of a picture where the model cannot be run.
const ONLY_SOLUTION: &str = ", although the equations of the embeddings allow no other";

/// A search counts as converged if its misfit is at most this factor times the private picture's, plus
/// [`Misfit::EXPLAINED`].
const NEARLY: f64 = 1.1;

/// The evidence from the pictures' own gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Misfit over the entries that arrived, or why it is unknown.
    pub misfit: Result<Misfit, AttackError>,
    /// For a search: how close it came.
    pub reached: Option<Reached>,
    /// Largest RMS distance, over pixels in [0, 1], of another picture that solves the embeddings' equations equally
    /// well. `None` unless the update has one picture, and there are enough equations.
    pub uncertainty: Option<f64>,
    /// Whether the pictures explain the negative of the update.
    pub is_turned: bool,
    /// The number of heads that explains the update, if it was a guess and another one does.
    pub heads: Option<usize>,
    /// Under which other assumption the pictures explain the update, as a clause.
    pub assuming: Option<String>,
    /// Local steps behind the update; 1 for a gradient.
    pub local_steps: u64,
    /// What the update shows of training that the model does not repeat, as a clause.
    pub traces: Option<String>,
    /// Why the model cannot be run, where its file says so.
    pub unread: Option<String>,
    /// Whether the update is no gradient, so that its pictures prove nothing.
    pub no_gradient: bool,
    /// Why the patches may be arranged in another way than a square, as a clause.
    pub arrangement: Option<String>,
    /// For a closed form that did not settle or was ended early: why an unrecognisable result proves nothing.
    pub unsettled: Option<String>,
    /// Of a batch that was taken apart: how many pictures are certain by their own evidence.
    pub certain: Option<usize>,
}

/// Misfits of a search over the entries that it compares. For a naive search, these include hidden entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    pub found: f64,
    /// Misfit of the private picture itself, which noise and several local steps raise above 0. Counts as 0 if the
    /// private picture is unknown.
    pub truth: f64,
}

impl Reached {
    fn is_there(self) -> bool {
        self.found <= NEARLY * self.truth + Misfit::EXPLAINED
    }
}

impl Check {
    /// Runs the model on the pictures that `method` found, each `[side, side, 3]` in [0, 1]. For a search on an update
    /// with one picture, also runs it on the truth, if known.
    pub fn new(
        method: AttackMethod,
        observation: &Observation,
        models: &dyn Searches,
        found: &Recovered,
        truths: &[Vec<f32>],
    ) -> Self {
        let unsettled = found.ending.because(found.seconds).filter(|_| !method.is_search());
        let pictures = found.pictures.as_slice();
        let own = match (method, &found.labels) {
            (AttackMethod::Batch, None) => Err(AttackError::BatchIncomplete),
            (AttackMethod::Batch, Some(labels)) => {
                let mut whose = observation.clone();
                (whose.batch, whose.labels) = (labels.len(), Some(labels.clone()));
                own_gradient(&whose, models, pictures)
            }
            _ => own_gradient(observation, models, pictures),
        };
        let whole = observation.whole.as_deref().ok_or(AttackError::NoModel);
        let over = |gradient: &Result<Vec<f64>, AttackError>, knowledge| {
            Misfit::of(gradient.as_ref().map_err(Clone::clone)?, whole.clone()?, knowledge)
        };
        let mut misfit = over(&own, Knowledge::Aware);
        let mut is_turned = false;
        if let (Ok(plain), Ok(own)) = (&misfit, &own)
            && plain.relative > Misfit::EXPLAINED
        {
            let negative = Ok(own.iter().map(|value| -value).collect());
            let turned = over(&negative, Knowledge::Aware).ok().filter(|it| it.relative <= Misfit::EXPLAINED);
            is_turned = turned.is_some();
            misfit = turned.map_or(misfit, Ok);
        }
        let reached = over(&own, method.knowledge()).ok().filter(|_| method.is_search()).map(|found| {
            let truth = (truths.len() == 1 && observation.batch == 1)
                .then(|| over(&own_gradient(observation, models, truths), method.knowledge()).ok())
                .flatten();
            Reached { found: found.relative, truth: truth.map_or(0.0, |truth| truth.relative) }
        });
        let uncertainty = match (pictures, observation.evidence()) {
            ([picture], Ok(evidence)) if observation.batch == 1 => pixel_uncertainty(&evidence.gradients, picture),
            _ => None,
        };
        Self {
            misfit,
            reached,
            uncertainty,
            unsettled,
            certain: found.certain,
            is_turned,
            heads: None,
            assuming: None,
            local_steps: observation.local_steps,
            traces: None,
            unread: None,
            no_gradient: false,
            arrangement: None,
        }
    }

    /// Whether the equations of the embeddings leave no other picture.
    pub fn is_only_solution(&self) -> bool {
        self.uncertainty.is_some_and(|error| error <= SAME_PICTURE)
    }

    /// Whether the pictures explain the update.
    pub fn is_explained(&self) -> bool {
        self.misfit.as_ref().is_ok_and(|misfit| misfit.relative <= Misfit::EXPLAINED)
    }

    /// Whether a batch that was taken apart is beyond doubt: a picture has the values of an 8-bit one, or all pictures
    /// together explain the update down to its rounding.
    fn is_taken_apart(&self) -> bool {
        let is_exact = || self.misfit.as_ref().is_ok_and(|misfit| misfit.relative <= Misfit::ROUNDING);
        self.certain.is_some_and(|certain| certain > 0 || is_exact())
    }

    /// Whether the update itself leaves no other picture.
    pub fn is_determined(&self) -> bool {
        self.is_explained() && self.is_only_solution()
    }
}

/// Returns the verdict on reconstructed pictures, with the `score` if the private pictures are known.
///
/// - *Recognisable*: an SSIM of at least [`RECOGNISABLE_FROM`], or no other picture is possible: the embeddings'
///   equations determine it to [`SAME_PICTURE`], and its own gradient explains the update to [`Misfit::EXPLAINED`], so
///   that its pixels are what the model saw and not cipher text. Then a low SSIM says that the given picture is not
///   what the model was fed.
///   Of a batch that was taken apart, one picture is enough whose values all lie at whole grey levels, or else all of
///   them must explain the update to 1e-5.
/// - *Not recognisable by this attack*: a lower SSIM from a closed form that settled, or from a search that explains
///   the update as well as the private picture does.
/// - *Cannot tell*: everything else.
pub fn judge(score: Option<&Score>, check: &Check) -> Verdict {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    if let Some(score) = score {
        return match check.reached {
            _ if score.best_ssim >= RECOGNISABLE_FROM => Verdict::Recognisable,
            _ if check.no_gradient => Verdict::CannotTell(NO_GRADIENT.to_owned()),
            _ if let Some(why) = &check.arrangement => Verdict::CannotTell(why.clone()),
            _ if check.is_determined() || check.is_taken_apart() => Verdict::Recognisable,
            Some(reached) if !reached.is_there() => Verdict::CannotTell(format!(
                "the search has not converged: its picture leaves {} of the update unexplained, the private picture {}; more \
                 iterations, another step or another start may see more",
                percent(reached.found),
                percent(reached.truth)
            )),
            _ => check.unsettled.clone().map_or(Verdict::NotRecognisableByThisAttack, Verdict::CannotTell),
        };
    }
    let because = match (&check.misfit, check.uncertainty) {
        _ if check.no_gradient => NO_GRADIENT.to_owned(),
        _ if check.is_taken_apart() => match &check.arrangement {
            Some(why) => why.clone(),
            None => return Verdict::Recognisable,
        },
        (Ok(_), _) if check.certain.is_some() => {
            "the private pictures are not known; these fit the first block of the model, but \
             their values do not lie at whole grey levels, and they do not explain the whole update"
                .to_owned()
        }
        (Err(why), _) => {
            let why = check.unread.clone().unwrap_or_else(|| why.to_string());
            let only = if check.is_only_solution() { ONLY_SOLUTION } else { "" };
            format!("the private picture is not known, and this one cannot be checked{only}: {why}")
        }
        (Ok(misfit), _) if misfit.relative > Misfit::EXPLAINED && check.is_only_solution() && check.local_steps > 1 => {
            format!(
                "the private picture is not known; the equations of the embeddings allow no other than this one, but local \
                 training took {} steps, and only the first was at the known weights: {} of the update are left",
                check.local_steps,
                percent(misfit.relative)
            )
        }
        (Ok(misfit), _) if misfit.relative > Misfit::EXPLAINED && check.is_only_solution() => {
            let traces = check.traces.as_ref().map(|traces| format!(" ({traces})")).unwrap_or_default();
            format!(
                "the model that was assumed does not confirm this picture, although the equations of the embeddings allow no \
                 other: {} of the update are left, by dropout, another loss, activation or layers, earlier updates or a key{traces}",
                percent(misfit.relative)
            )
        }
        (Ok(misfit), _) if misfit.relative > Misfit::EXPLAINED => format!(
            "the private picture is not known, and this one leaves {} of the update unexplained",
            percent(misfit.relative)
        ),
        (Ok(_), Some(error)) if error <= SAME_PICTURE => match &check.arrangement {
            Some(why) => why.clone(),
            None => return Verdict::Recognisable,
        },
        (Ok(_), Some(error)) => format!(
            "the private picture is not known; this one explains the update, and so may others that are up to {:.0} % of the \
             range of a pixel away",
            (100.0 * error).ceil()
        ),
        (Ok(_), None) => {
            "the private picture is not known; this one explains the update, and so may others, since too few \
                          equations of the embeddings arrived whole"
                .to_owned()
        }
    };
    Verdict::CannotTell(because)
}

#[cfg(test)]
mod tests {
    use unmask_attack::Ending;

    use super::*;

    fn score(best_ssim: f64) -> Score {
        Score { psnr: 12.0, ssim: best_ssim.min(0.3), best_ssim, arranged: None }
    }

    fn check(relative: f64) -> Check {
        Check {
            misfit: Ok(Misfit { relative, scale: 1.0, entries: 1000 }),
            reached: None,
            uncertainty: None,
            unsettled: None,
            certain: None,
            is_turned: false,
            heads: None,
            assuming: None,
            local_steps: 1,
            traces: None,
            unread: None,
            no_gradient: false,
            arrangement: None,
        }
    }

    fn searched(found: f64, truth: f64) -> Check {
        Check { reached: Some(Reached { found, truth }), ..check(found) }
    }

    fn because(verdict: Verdict) -> String {
        verdict.because().unwrap_or_else(|| panic!("{verdict}")).to_owned()
    }

    #[test]
    fn the_private_picture_decides_where_it_is_known() {
        let judge = |ssim, check: &Check| judge(Some(&score(ssim)), check);
        assert_eq!(judge(0.5, &searched(0.9, 0.0)), Verdict::Recognisable, "however badly it explains the update");
        assert_eq!(
            judge(0.49, &check(0.9)),
            Verdict::NotRecognisableByThisAttack,
            "a closed form has no further to go"
        );
        assert_eq!(judge(0.2, &searched(0.005, 0.0)), Verdict::NotRecognisableByThisAttack);
        assert_eq!(judge(0.2, &searched(0.93, 0.95)), Verdict::NotRecognisableByThisAttack, "under noise");
        let because = because(judge(0.2, &searched(0.34, 0.0)));
        assert!(because.contains("not converged") && because.contains("34.0 %"), "{because}");
    }

    /// An exact picture stays one, whatever file it is compared with.
    #[test]
    fn the_updates_own_evidence_comes_first() {
        let exact = Check { uncertainty: Some(0.0), ..check(0.0) };
        assert_eq!(judge(Some(&score(0.1)), &exact), Verdict::Recognisable);
        assert_eq!(judge(Some(&score(0.1)), &check(0.0)), Verdict::NotRecognisableByThisAttack);
        let scrambled = Check { arrangement: Some("the patches may stand in rows of 8".to_owned()), ..exact };
        let signs = Check { no_gradient: true, ..check(0.9) };
        for score in [None, Some(&score(0.1))] {
            assert!(because(judge(score, &signs)).contains("it is no gradient"));
            assert!(because(judge(score, &scrambled)).contains("rows of 8"));
        }
        assert_eq!(judge(Some(&score(0.9)), &scrambled), Verdict::Recognisable);
    }

    /// A time limit is not a defence.
    #[test]
    fn what_did_not_settle_sees_no_limit() {
        let ended = Check { unsettled: Ending::Ended.because(19.6), ..check(0.9) };
        let judge = |ssim| judge(Some(&score(ssim)), &ended);
        assert_eq!(because(judge(0.2)), "the attack was ended before it settled (after 20 s)");
        assert_eq!(judge(0.5), Verdict::Recognisable, "regardless of what more it might have seen");
        assert!(Ending::Unsettled.because(1.0).is_some_and(|why| why.contains("did not settle")));
        assert_eq!(Ending::Settled.because(1.0), None);
    }

    /// The whole update may stay unexplained while one picture of it is proven.
    #[test]
    fn one_certain_picture_of_a_batch_is_enough() {
        let batch = |certain| Check { certain: Some(certain), misfit: Err(AttackError::BatchIncomplete), ..check(0.0) };
        assert_eq!(judge(None, &batch(1)), Verdict::Recognisable);
        assert!(because(judge(None, &batch(0))).contains("cannot be checked"));
        assert_eq!(judge(Some(&score(0.1)), &batch(1)), Verdict::Recognisable, "whatever file it is compared with");
        assert_eq!(judge(Some(&score(0.1)), &batch(0)), Verdict::NotRecognisableByThisAttack);
        let floats = |relative| Check { certain: Some(0), ..check(relative) };
        assert_eq!(judge(None, &floats(2e-6)), Verdict::Recognisable);
        assert!(because(judge(None, &floats(0.004))).contains("do not explain the whole update"));
        let scrambled = Check { arrangement: Some("the patches may stand in rows of 8".to_owned()), ..batch(1) };
        assert!(because(judge(None, &scrambled)).contains("rows of 8"));
    }

    #[test]
    fn without_it_no_other_picture_may_be_left() {
        let judge = |check: &Check| judge(None, check);
        let determined = |relative, uncertainty| Check { uncertainty, ..check(relative) };
        assert_eq!(judge(&determined(Misfit::EXPLAINED, Some(SAME_PICTURE))), Verdict::Recognisable);
        let because = |check: &Check| because(judge(check));
        assert!(because(&determined(0.2, Some(0.0))).contains("allow no other: 20.0 % of the update are left"));
        assert!(because(&determined(0.0, Some(0.25))).contains("up to 25 % of the range of a pixel"));
        assert!(because(&determined(0.0, None)).contains("too few equations"));
        let unchecked = Check { misfit: Err(AttackError::NoModel), ..determined(0.0, Some(0.0)) };
        assert!(because(&unchecked).contains("cannot be checked"));
    }
}
