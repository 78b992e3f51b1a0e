//! The attack on another client's masked update, which the relay lends to this student.

use std::ops::ControlFlow;

use unmask_attack::{AttackProgress, NoSearches, SearchOptions, run};
use unmask_client::{Loan, RoundPlan};
use unmask_core::{AttackMethod, UpdateForm};

use super::{own_attack::observe, views};
use crate::protocol::{LoanAttack, LoanResult};

/// Reads the gaps as zeros.
const BLIND: &[AttackMethod] = &[AttackMethod::Embedding];
/// Know the gaps, the one that sees more first; it applies only to models with few patches for their width.
const AWARE: &[AttackMethod] = &[AttackMethod::Completion, AttackMethod::EmbeddingAware];

const NO_PICTURE: &str = "the attack makes no picture";

/// The loan that waits to be attacked. Its values are dropped as soon as both pictures are there.
#[derive(Default)]
pub struct Loans {
    waiting: Option<Waiting>,
    /// The last loan that was taken. A new socket gets the same one again.
    taken: Option<(u32, UpdateForm)>,
}

struct Waiting {
    poll: u32,
    loan: Box<Loan>,
    /// Whether the picture of the attack that reads gaps as zeros is there.
    is_half_done: bool,
}

impl Loans {
    /// Takes a loan, or why it cannot be used: what to tell the page now, if anything.
    pub fn take(&mut self, poll: u32, loan: Result<Box<Loan>, String>) -> Option<LoanResult> {
        match loan {
            Ok(loan) => {
                let taken = Some((poll, loan.update.form));
                if self.taken != taken {
                    self.taken = taken;
                    self.waiting = Some(Waiting { poll, loan, is_half_done: false });
                }
                None
            }
            Err(reason) => {
                self.end();
                Some(LoanResult { poll, knows_gaps: false, attack: LoanAttack::Failed(reason) })
            }
        }
    }

    /// The loan was withdrawn, or its question is over.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    pub fn is_due(&self) -> bool {
        self.waiting.is_some()
    }

    /// Runs the next of the two attacks, with the weights of `plan`.
    pub fn run(&mut self, plan: Option<&RoundPlan>) -> Option<LoanResult> {
        let Waiting { poll, loan, is_half_done } = self.waiting.take()?;
        let Some(plan) = plan.filter(|plan| loan.is_of(plan)) else {
            return Some(LoanResult { poll, knows_gaps: is_half_done, attack: LoanAttack::NoWeights });
        };
        let attack = attack(plan, &loan, if is_half_done { AWARE } else { BLIND });
        if !is_half_done {
            self.waiting = Some(Waiting { poll, loan, is_half_done: true });
        }
        Some(LoanResult { poll, knows_gaps: is_half_done, attack })
    }
}

/// The picture by the first of these attacks that makes one.
fn attack(plan: &RoundPlan, loan: &Loan, methods: &[AttackMethod]) -> LoanAttack {
    let picture = reconstruct(plan, loan, methods)
        .and_then(|picture| views::rgba(plan.architecture.side(), &picture).ok_or_else(|| NO_PICTURE.to_owned()));
    picture.map_or_else(LoanAttack::Failed, LoanAttack::Picture)
}

fn reconstruct(plan: &RoundPlan, loan: &Loan, methods: &[AttackMethod]) -> Result<Vec<f32>, String> {
    let (observation, _) = observe(plan, &loan.update, loan.samples).map_err(|error| error.to_string())?;
    let mut reason = NO_PICTURE.to_owned();
    for &method in methods {
        let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
        match run(method, &observation, &NoSearches, SearchOptions::default(), go_on) {
            Ok(found) => {
                if let Some(picture) = found.pictures.into_iter().next() {
                    return Ok(picture);
                }
            }
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use unmask_client::{Client, Nonces, PictureSelection, PrivatePicture};
    use unmask_core::{Architecture, Defence, Rule, VitPreset};
    use unmask_data::Picture;
    use unmask_model::{Network, device::OpenDevice};
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    const SIDE: usize = 32;

    fn plan(round: u32) -> RoundPlan {
        let architecture = Architecture::from(VitPreset::NanoPatch8);
        RoundPlan {
            round,
            policy: 1,
            architecture,
            layout: architecture.layout(),
            defence: "random-binary:0.5".parse::<Defence>().expect("a defence"),
            rule: Rule::FedSgd,
            batch: 1,
            pictures: PictureSelection::Private,
            state: architecture.initial(7),
            cipher: None,
            sum: None,
            nonces: Nonces::default(),
            least: 1,
            doubts: Vec::new(),
        }
    }

    /// A lender with a smooth picture, and the update that it has sent in this round.
    async fn lent(plan: &RoundPlan) -> (Client, Box<Loan>) {
        let byte = |i: usize| {
            let (x, y) = ((i / 3 % SIDE) as f32, (i / 3 / SIDE) as f32);
            (127.0 + 60.0 * (x / 5.0 + (i % 3) as f32).sin() + 60.0 * (y / 7.0).cos()) as u8
        };
        let picture = Picture::new(SIDE, SIDE, (0..SIDE * SIDE * 3).map(byte).collect()).expect("a picture");
        let mut lender = Client::new("Ada", "CPU").with_pictures(vec![PrivatePicture::new(picture, 3)]);
        let pictures = lender.pictures(plan).expect("one picture");
        let network = Network::new(plan.architecture, OpenDevice::cpu().device()).expect("a network");
        let trained = plan.task().train(&network, &pictures).await.expect("a step");
        let update = lender.update(plan, trained, [7; 32]).expect("an update").update.expect("in plain");
        let RoundPlan { round, architecture, rule, batch, .. } = *plan;
        (lender, Box::new(Loan { round, architecture, rule, batch, samples: 1, update }))
    }

    fn ssim(lender: &Client, result: &LoanResult) -> f32 {
        let LoanAttack::Picture(picture) = &result.attack else { panic!("{result:?} instead of a picture") };
        let rgb = picture.bytes.as_chunks::<4>().0.iter().flat_map(|&[r, g, b, _]| [r, g, b]);
        let values: Vec<f32> = rgb.map(|byte| f32::from(byte) / 255.0).collect();
        lender.compare(1, AttackMethod::Completion, SIDE, &values).expect("one picture").expect("the same size").ssim
    }

    #[wasm_bindgen_test]
    async fn only_who_knows_the_gaps_sees_the_picture() {
        let plan = plan(1);
        let (lender, loan) = lent(&plan).await;
        let mut loans = Loans::default();
        assert_eq!(loans.take(5, Ok(loan.clone())), None);
        let blind = loans.run(Some(&plan)).expect("the first attack");
        assert!(!blind.knows_gaps && loans.is_due());
        let aware = loans.run(Some(&plan)).expect("the second attack");
        assert!(aware.knows_gaps && aware.poll == 5 && !loans.is_due());
        let (blind, aware) = (ssim(&lender, &blind), ssim(&lender, &aware));
        wasm_bindgen_test::console_log!("SSIM {blind} without the gaps, {aware} with them");
        assert!(aware > 0.99 && blind < 0.5, "SSIM {blind} without the gaps, {aware} with them");
        // A new socket brings the same loan again.
        loans.take(5, Ok(loan));
        assert!(!loans.is_due());
    }

    #[wasm_bindgen_test]
    async fn a_tab_without_the_weights_says_so() {
        let (_, loan) = lent(&plan(1)).await;
        for other in [None, Some(plan(2))] {
            let mut loans = Loans::default();
            loans.take(5, Ok(loan.clone()));
            let result = loans.run(other.as_ref()).expect("a result");
            assert_eq!((result.attack, loans.is_due()), (LoanAttack::NoWeights, false));
        }
        let refused = Loans::default().take(5, Err("another release".to_owned())).expect("a result");
        assert_eq!(refused.attack, LoanAttack::Failed("another release".to_owned()));
    }
}
