//! `report.json` and its summary.

use std::path::Path;

use serde::Serialize;
use unmask_attack::{HeadLabels, LabelReading, Membership, Recovered};
use unmask_core::{Architecture, AttackMethod, MembershipVerdict, SchemaVersion, Verdict};

use unmask_data::metrics::RECOGNISABLE_FROM;

use crate::{Check, InferenceAttack, LocalTraining, Score, decay::Decay, inversion::Pictures, judge, numbers::Numbers};

/// The contents of `report.json`, described by `docs/schema/report.json`.
#[derive(Debug, Serialize)]
pub struct Report {
    pub schema_version: SchemaVersion<1>,
    pub attack: InferenceAttack,
    pub model: String,
    pub april_block: bool,
    /// Pictures in the update: as given, or by the gradient's rank.
    pub batch: usize,
    /// Pictures by the ranks of the head's and the last block's gradient, such as "2" or "at least 90".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures_by_rank: Option<String>,
    /// The given label of a single picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<usize>,
    /// The given labels of several pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<usize>>,
    /// `verdict`, and `because` if it is unknown. Only for attacks that reconstruct pictures.
    #[serde(flatten)]
    pub verdict: Option<Verdict>,
    /// How many pictures of a batch are certain by their own evidence, the first of those written; only for batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certain: Option<usize>,
    /// Share of the update that the pictures leave unexplained, over the entries that arrived: min over s >= 0 of ||s
    /// g(x) - g|| / ||g||, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfit: Option<f64>,
    /// The minimising s: 1 for a plain gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfit_scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfit_entries: Option<usize>,
    /// Only for an update that consists of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fedavg: Option<LocalTraining>,
    /// Duration of the attack, without reading and writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// In dB, at most 99; the mean over a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr: Option<f64>,
    /// The mean over a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssim: Option<f64>,
    /// How the private picture was fed to the model, if not as the centred crop of the given file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truth_as: Option<String>,
    /// Whether PSNR and SSIM refer to the best order of a jigsaw's pieces.
    #[serde(skip_serializing_if = "is_false")]
    pub best_order: bool,
    /// Smallest over largest singular value; only for a closed form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub singular_values_ratio: Option<f64>,
    /// Completed steps; only for a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<usize>,
    /// The last objective; only for a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// Share of the gradient's read values that masks hid.
    pub hidden_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels_read: Option<Vec<usize>>,
    /// The assumption under which these are the labels: a clause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels_if: Option<String>,
    /// Why the labels cannot be told: a clause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels_unknown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<MembershipReport>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct MembershipReport {
    pub verdict: &'static str,
    /// The share of the candidate's class token outside the span of those in the update.
    pub residual: f64,
    /// 95 % interval of the residual.
    pub interval: (f64, f64),
    /// Pictures that the update shows, such as "2" or "at least 90".
    pub pictures: String,
    /// The trace that the candidate would leave in the update, relative to the strongest picture's.
    pub strength: f64,
    /// Below this strength, rounding hides a picture, so no candidate is declared absent; 0 if the number of pictures
    /// is known.
    pub floor: f64,
    /// Residuals of mirrored and recoloured copies of the candidate, which were not in the update, in ascending order.
    pub strangers: Vec<f64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Report {
    pub(crate) fn new(
        attack: InferenceAttack,
        model: Option<Architecture>,
        (batch, labels): (usize, &[usize]),
        hidden_share: f64,
    ) -> Self {
        Self {
            schema_version: SchemaVersion,
            attack,
            model: model.map_or_else(|| "unknown".to_owned(), |model| model.to_string()),
            april_block: model.is_some_and(Architecture::april_block),
            batch,
            pictures_by_rank: None,
            label: if let &[label] = labels { Some(label) } else { None },
            labels: (labels.len() > 1).then(|| labels.to_vec()),
            verdict: None,
            certain: None,
            misfit: None,
            misfit_scale: None,
            misfit_entries: None,
            fedavg: None,
            seconds: None,
            psnr: None,
            ssim: None,
            truth_as: None,
            best_order: false,
            singular_values_ratio: None,
            iterations: None,
            objective: None,
            hidden_share,
            labels_read: None,
            labels_if: None,
            labels_unknown: None,
            membership: None,
            notes: Vec::new(),
        }
    }

    /// Records how the update was made and what kind of numbers it has.
    pub(crate) fn numbers(&mut self, numbers: Numbers, fedavg: Option<LocalTraining>) {
        self.fedavg = fedavg;
        // One local step of Adam leaves no gradient.
        let training = fedavg.filter(|_| numbers != Numbers::OneSize).map(LocalTraining::note);
        self.notes.extend(training.into_iter().chain(numbers.note()));
    }

    pub(crate) fn decay(&mut self, decay: Option<Decay>) {
        self.notes.extend(decay.map(Decay::note));
    }

    /// Notes that the weights were doctored, so that only pictures of `class` have a gradient before the head.
    pub(crate) fn fished(&mut self, class: usize) {
        self.notes.push(format!(
            "The weights are doctored (fishing): the head's only row that is not zero is that of class {class}, so that only \
             pictures of this class have a gradient before the head. The head's own gradient is of the whole batch, and was left \
             out of the comparison."
        ));
    }

    /// Records the number of pictures by rank, and adds a note if it exceeds the assumed one, or if the two ranks differ.
    pub(crate) fn pictures_by_rank(&mut self, pictures: Pictures) {
        let by_rank = pictures.number();
        self.pictures_by_rank = by_rank.map(|pictures| pictures.to_string());
        if let (Some(block), Some(head)) = (pictures.by_block.filter(|block| Some(*block) != by_rank), pictures.by_head)
        {
            self.notes.push(format!(
                "The rank of the last block's gradient is {block}, of the head's {head}: the head reads one vector of each \
                 picture. The block's rank counts rounding, or tokens where the head reads more than one; or else the head can \
                 hardly tell some pictures apart."
            ));
        }
        let source = if pictures.by_block == by_rank { "last block" } else { "head" };
        if let Some(pictures) = by_rank.filter(|pictures| pictures.seen() > self.batch) {
            self.notes.push(format!(
                "The rank of the {source}'s gradient shows {pictures} pictures, but the attack assumed {}: if they \
                 are not steps of local training, give --batch {}.",
                self.batch,
                pictures.seen(),
            ));
        }
    }

    pub(crate) fn found(&mut self, found: &Recovered) {
        self.seconds = Some(found.seconds);
        self.singular_values_ratio = found.singular_ratio;
        self.iterations = found.iterations;
        self.objective = found.objective;
        self.certain = found.certain;
        self.notes.extend(found.notes.iter().cloned());
    }

    /// Records the verdict and the measures. `score` is there if the private pictures are known.
    pub(crate) fn judge(&mut self, score: Option<&Score>, check: &Check) {
        self.verdict = Some(judge(score, check));
        if let Ok(misfit) = check.misfit {
            self.misfit = Some(misfit.relative);
            self.misfit_scale = Some(misfit.scale);
            self.misfit_entries = Some(misfit.entries);
        }
        if check.is_turned {
            self.notes.push(
                "The picture explains the negative of the update, as of weights after less those before.".to_owned(),
            );
        }
        if let Some(assuming) = &check.assuming {
            self.notes.push(format!("The picture explains the update {assuming}."));
        }
        if let Some(heads) = check.heads {
            self.notes.push(format!("With {heads} attention heads the picture explains the update."));
        }
        if score.is_some_and(|score| score.best_ssim < RECOGNISABLE_FROM)
            && check.is_determined()
            && check.arrangement.is_none()
        {
            self.notes.push(
                "The picture explains the update, but --truth does not look like it, neither as it is nor mirrored, squashed or \
                 in grey: the model was fed something else, such as a random crop."
                    .to_owned(),
            );
        }
        if let Some(score) = score {
            self.psnr = Some(score.psnr);
            self.ssim = Some(score.ssim);
            self.best_order = score.arranged.is_some();
        }
    }

    /// Records how the given private picture was fed to the model.
    pub(crate) fn truth_is(&mut self, how: &str) {
        self.truth_as = Some(how.to_owned());
        self.notes.push(format!(
            "--truth {how} looks most like the picture, not its centred crop; PSNR and SSIM refer to that."
        ));
    }

    pub(crate) fn head_labels(&mut self, labels: HeadLabels) {
        match labels {
            HeadLabels::Read { labels, if_, .. } => {
                self.labels_read = Some(labels);
                self.labels_if = if_;
            }
            HeadLabels::CannotTell(why) => self.labels_unknown = Some(why),
        }
    }

    /// Says that nothing shows the number of pictures.
    pub(crate) fn assume_one(&mut self) {
        let one = "the update is of one picture";
        self.labels_if = self.labels_read.is_some().then(|| match &self.labels_if {
            Some(if_) => format!("{one} and {if_}"),
            None => one.to_owned(),
        });
    }

    pub(crate) fn read_labels(&mut self, labels: Option<LabelReading>) {
        self.labels_read = labels.map(|read| read.labels());
    }

    pub(crate) fn membership(&mut self, told: &Membership) {
        if told.verdict == MembershipVerdict::Undecided && told.strength <= told.floor {
            self.notes.push(format!(
                "Cannot tell whether the candidate was in the update: the model is so sure of it that it would leave only {:.0e} of \
                 the strongest picture's trace, and rounding hides traces below {:.0e}. If you know the number of pictures, --batch \
                 may decide it.",
                told.strength, told.floor,
            ));
        }
        self.membership = Some(MembershipReport {
            verdict: told.verdict.name(),
            residual: told.residual,
            interval: told.interval,
            pictures: told.batch.to_string(),
            strength: told.strength,
            floor: told.floor,
            strangers: told.distractors.clone(),
        });
    }

    /// Summarises the report in a few lines. `out` is where the pictures are.
    pub fn summary(&self, out: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(seconds) = self.seconds {
            lines.push(format!("{} in {:.0} ms: {}", self.attack.title(), seconds * 1e3, out.display()));
        }
        if let (Some(psnr), Some(ssim)) = (self.psnr, self.ssim) {
            let order = if self.best_order { " in the best order of the pieces" } else { "" };
            lines.push(format!("PSNR {psnr:.1} dB, SSIM {ssim:.3}{order}"));
        }
        if let Some(misfit) = self.misfit {
            lines.push(format!(
                "by {} own gradient, the {} {:.2} % of the update unexplained",
                if self.certain.is_some() { "their" } else { "its" },
                if self.certain.is_some() { "pictures leave" } else { "picture leaves" },
                100.0 * misfit
            ));
        }
        if let Some(verdict) = &self.verdict {
            lines.push(format!("verdict: {verdict}"));
        }
        // The notes of a search already name its labels.
        let says_so = self.attack.method().is_some_and(AttackMethod::is_search);
        if let Some(labels) = self.labels_read.as_ref().filter(|_| !says_so) {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            let only_if = self.labels_if.as_ref().map(|if_| format!(", if {if_}")).unwrap_or_default();
            lines.push(format!("labels read off the update: {}{only_if}", labels.join(", ")));
        }
        if let Some(why) = self.labels_unknown.as_ref().filter(|_| !says_so) {
            lines.push(format!("labels: cannot tell, because {why}"));
        }
        if let Some(told) = &self.membership {
            lines.push(format!(
                "candidate: {}, residual {:.1e} in an update of {} pictures",
                told.verdict, told.residual, told.pictures
            ));
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }
}
