//! Another client's masked update, lent for a student to attack.

use unmask_core::{Architecture, Rule};
use unmask_defence::ProtectedUpdate;
use unmask_wire::LoanHeader;

use crate::plan::{RoundPlan, known_architecture};

/// A lent update that fits its model.
#[derive(Debug, Clone, PartialEq)]
pub struct Loan {
    /// The round whose weights it was made from.
    pub round: u32,
    pub architecture: Architecture,
    pub rule: Rule,
    /// Samples per step.
    pub batch: usize,
    /// Samples of the update, according to its owner.
    pub samples: u32,
    pub update: ProtectedUpdate,
}

impl Loan {
    /// # Errors
    /// In words for people, if the model is unknown or the values do not fit it.
    pub(crate) fn new(header: LoanHeader, values: Vec<f32>) -> Result<Self, String> {
        let LoanHeader { round, model, rule, batch, samples, form, .. } = header;
        let architecture = known_architecture(model)?;
        let update = ProtectedUpdate { form, values };
        update.check(&architecture.layout()).map_err(|error| error.to_string())?;
        Ok(Self { round, architecture, rule, batch: batch.into(), samples, update })
    }

    /// Whether the update was made from the weights of this plan.
    pub fn is_of(&self, plan: &RoundPlan) -> bool {
        (self.round, self.architecture, self.rule, self.batch) == (plan.round, plan.architecture, plan.rule, plan.batch)
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Defence, MaskSeed, UpdateForm, VitPreset};

    use super::*;

    #[test]
    fn a_loan_fits_its_model_or_says_why_not() {
        let (architecture, rates) = (Architecture::from(VitPreset::Pico), "0.5".parse().unwrap());
        let form = UpdateForm::Masked { seed: MaskSeed([3; 32]), rates };
        let header = LoanHeader {
            poll: 1,
            round: 6,
            model: architecture.into(),
            defence: Defence::RandomBinary { rates },
            rule: Rule::FedSgd,
            batch: 1,
            samples: 1,
            form,
        };
        assert!(Loan::new(header.clone(), vec![0.0; 3]).unwrap_err().contains("3 values, its mask keeps"));
        let mask = ProtectedUpdate { form, values: Vec::new() }.mask(&architecture.layout()).unwrap();
        let kept = mask.entries().filter(|is_kept| *is_kept).count();
        let loan = Loan::new(header, vec![0.0; kept]).unwrap();
        assert_eq!((loan.round, loan.architecture, loan.update.values.len()), (6, architecture, kept));
    }
}
