//! What studies measure, as formulas name it.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Metric {
    Accuracy,
    Early,
    Apart,
    Ssim,
    Seen,
    SeedSsim,
    Told,
    Leak,
    Updates,
    Never,
    NeverPosition,
    Always,
    Misfit,
    PrintedSum,
    /// A metric that no study measures.
    Unmeasured(String),
}

impl Metric {
    pub(crate) const MEASURED: [Self; 14] = [
        Self::Accuracy,
        Self::Early,
        Self::Apart,
        Self::Ssim,
        Self::Seen,
        Self::SeedSsim,
        Self::Told,
        Self::Leak,
        Self::Updates,
        Self::Never,
        Self::NeverPosition,
        Self::Always,
        Self::Misfit,
        Self::PrintedSum,
    ];

    /// Name in formulas.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Early => "early",
            Self::Apart => "apart",
            Self::Ssim => "ssim",
            Self::Seen => "seen",
            Self::SeedSsim => "seed-ssim",
            Self::Told => "told",
            Self::Leak => "leak",
            Self::Updates => "updates",
            Self::Never => "never",
            Self::NeverPosition => "never-position",
            Self::Always => "always",
            Self::Misfit => "misfit",
            Self::PrintedSum => "printed-sum",
            Self::Unmeasured(name) => name,
        }
    }

    pub(crate) fn meaning(&self) -> &'static str {
        match self {
            Self::Accuracy => "test pictures classified correctly after the last round, in %",
            Self::Early => "the same at the first test after training began, on fewer pictures, in %",
            Self::Apart => {
                "test pictures that one of this case and no defence classifies correctly and the other does not, in %"
            }
            Self::Ssim => "mean SSIM of what an attack makes of the pictures; 0 where it has nothing to solve",
            Self::Seen => "attacked updates whose pictures reach an SSIM of 0.5, of several their mean, in %",
            Self::SeedSsim => {
                "mean over pictures of how far their SSIM under several masks and starts of the search lie apart"
            }
            Self::Told => "updates of which the attack tells a member and a stranger rightly, in %",
            Self::Leak => "mean SSIM of what the best attacker makes of the sample photographs",
            Self::Updates => "mean number of updates of a parameter",
            Self::Never => "parameters that no round updated, in %",
            Self::NeverPosition => "parameters of the position embedding that no round updated, in %",
            Self::Always => "parameters that every round updated, in %",
            Self::Misfit => "chi-squared of the numbers of updates against G(f), as a multiple of its 99 % quantile",
            Self::PrintedSum => "what G(f) as it is printed adds up to over all f",
            Self::Unmeasured(_) => "measured by no study",
        }
    }

    /// What its 95 % interval covers. `None` for a count, which is exact for these pictures or parameters, and for
    /// other values that are compared without an interval.
    pub(crate) fn interval(&self) -> Option<&'static str> {
        match self {
            Self::Accuracy | Self::Early => {
                Some("of the seeds and of the test pictures; of a difference paired by both")
            }
            Self::Ssim => Some("of the pictures; of a difference paired by picture"),
            Self::SeedSsim => Some("of the pictures; of a difference paired by picture"),
            Self::Leak => {
                Some("of the seeds and of the photographs; of a difference not paired: both intervals are added up")
            }
            Self::Apart
            | Self::Seen
            | Self::Told
            | Self::Updates
            | Self::Never
            | Self::NeverPosition
            | Self::Always
            | Self::Misfit
            | Self::PrintedSum
            | Self::Unmeasured(_) => None,
        }
    }

    /// Whether it measures what an attack reveals. It says nothing about a defence if the attack does not work without
    /// one.
    pub(crate) fn needs_a_working_attack(&self) -> bool {
        matches!(self, Self::Ssim | Self::Seen | Self::SeedSsim | Self::Told)
    }
}
