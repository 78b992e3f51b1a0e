//! `report.json`, and the same in a few lines.

use std::path::Path;

use serde::Serialize;
use unmask_attack::{BatchSize, LabelReading, Membership, Recovered};
use unmask_core::{Architecture, AttackMethod, Verdict};
use unmask_experiments::{Check, InferenceAttack, Score, judge};

use super::fedavg::LocalTraining;

/// `report.json`, which `docs/schema/report.json` describes.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    attack: InferenceAttack,
    model: String,
    april_block: bool,
    /// Pictures in the update, as given, or by their rank.
    batch: usize,
    /// Pictures that the rank of the last block's gradient shows, such as "2" or "at least 90".
    #[serde(skip_serializing_if = "Option::is_none")]
    pictures_by_rank: Option<String>,
    /// As given, of one picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<usize>,
    /// As given, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<usize>>,
    /// `verdict`, and `because` where it cannot be told; of an attack that makes pictures.
    #[serde(flatten)]
    verdict: Option<Verdict>,
    /// What the pictures leave unexplained of the update, over the entries that arrived: min over s >= 0 of
    /// ||s g(x) - g|| / ||g||, 0 nothing and 1 all.
    #[serde(skip_serializing_if = "Option::is_none")]
    misfit: Option<f64>,
    /// That s: 1 for a plain gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    misfit_scale: Option<f64>,
    /// How many entries are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    misfit_entries: Option<usize>,
    /// Of an update that was weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    fedavg: Option<LocalTraining>,
    /// Time of the attack itself, without reading and writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// In dB, at most 99; the mean over a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    psnr: Option<f64>,
    /// The mean over a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssim: Option<f64>,
    /// Whether both are those of the best order of a jigsaw's pieces.
    #[serde(skip_serializing_if = "is_false")]
    best_order: bool,
    /// Smallest over largest, of a closed form.
    #[serde(skip_serializing_if = "Option::is_none")]
    singular_values_ratio: Option<f64>,
    /// Steps done, of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<usize>,
    /// The last one, of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
    /// Share of the gradient's values, among those read, that masks hid.
    hidden_share: f64,
    /// Read off the update.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels_read: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    membership: Option<MembershipReport>,
    notes: Vec<String>,
}

/// Whether the candidate was in the update.
#[derive(Debug, Serialize)]
struct MembershipReport {
    verdict: &'static str,
    /// The share of the candidate's class token outside of the span of those in the update.
    residual: f64,
    /// 95 % of it.
    interval: (f64, f64),
    /// Pictures that the update shows, such as "2" or "at least 90".
    pictures: String,
    /// The residuals of mirrored and recoloured copies of the candidate, which were not there, ascending.
    strangers: Vec<f64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Report {
    pub(super) fn new(
        attack: InferenceAttack,
        model: Architecture,
        (batch, labels): (usize, &[usize]),
        hidden_share: f64,
        fedavg: Option<LocalTraining>,
    ) -> Self {
        Self {
            attack,
            model: model.to_string(),
            april_block: model.april_block(),
            batch,
            pictures_by_rank: None,
            label: if let &[label] = labels { Some(label) } else { None },
            labels: (labels.len() > 1).then(|| labels.to_vec()),
            verdict: None,
            misfit: None,
            misfit_scale: None,
            misfit_entries: None,
            fedavg,
            seconds: None,
            psnr: None,
            ssim: None,
            best_order: false,
            singular_values_ratio: None,
            iterations: None,
            objective: None,
            hidden_share,
            labels_read: None,
            membership: None,
            notes: fedavg.map(LocalTraining::note).into_iter().collect(),
        }
    }

    /// What the update tells of their number; says so where it is another one.
    pub(super) fn pictures_by_rank(&mut self, by_rank: Option<BatchSize>) {
        self.pictures_by_rank = by_rank.map(|pictures| pictures.to_string());
        if let Some(pictures) = by_rank.filter(|pictures| pictures.seen() > self.batch) {
            self.notes.push(format!(
                "The rank of the last block's gradient shows {pictures} pictures, and the attack was told of {}: if they \
                 are not steps of local training, give --batch {}.",
                self.batch,
                pictures.seen(),
            ));
        }
    }

    pub(super) fn found(&mut self, found: &Recovered) {
        self.seconds = Some(found.seconds);
        self.singular_values_ratio = found.singular_ratio;
        self.iterations = found.iterations;
        self.objective = found.objective;
        self.notes.extend(found.notes.iter().cloned());
    }

    /// What the pictures say, with the `score` where the private ones are known.
    pub(super) fn judge(&mut self, score: Option<&Score>, check: &Check) {
        self.verdict = Some(judge(score, check));
        if let Ok(misfit) = check.misfit {
            self.misfit = Some(misfit.relative);
            self.misfit_scale = Some(misfit.scale);
            self.misfit_entries = Some(misfit.entries);
        }
        if let Some(score) = score {
            self.psnr = Some(score.psnr);
            self.ssim = Some(score.ssim);
            self.best_order = score.arranged.is_some();
        }
    }

    pub(super) fn read_labels(&mut self, labels: Option<LabelReading>) {
        self.labels_read = labels.map(|read| read.labels());
    }

    pub(super) fn membership(&mut self, told: &Membership) {
        self.membership = Some(MembershipReport {
            verdict: told.verdict.name(),
            residual: told.residual,
            interval: told.interval,
            pictures: told.batch.to_string(),
            strangers: told.distractors.clone(),
        });
    }

    /// A few lines on standard output.
    pub(super) fn summarise(&self, out: &Path) {
        if let Some(seconds) = self.seconds {
            println!("{} in {:.0} ms: {}", self.attack.title(), seconds * 1e3, out.display());
        }
        if let (Some(psnr), Some(ssim)) = (self.psnr, self.ssim) {
            let order = if self.best_order { " in the best order of the pieces" } else { "" };
            println!("PSNR {psnr:.1} dB, SSIM {ssim:.3}{order}");
        }
        if let Some(misfit) = self.misfit {
            println!("by its own gradient, the picture leaves {:.2} % of the update unexplained", 100.0 * misfit);
        }
        if let Some(verdict) = &self.verdict {
            println!("verdict: {verdict}");
        }
        // A search says in its notes which labels it took.
        let says_so = self.attack.method().is_some_and(AttackMethod::is_search);
        if let Some(labels) = self.labels_read.as_ref().filter(|_| !says_so) {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            println!("labels read off the update: {}", labels.join(", "));
        }
        if let Some(told) = &self.membership {
            println!(
                "candidate: {}, residual {:.1e} in an update of {} pictures",
                told.verdict, told.residual, told.pictures
            );
        }
        for note in &self.notes {
            println!("{note}");
        }
    }
}
