//! The measured cases.

use std::fmt;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub work: Work,
    /// Steps in a turn: about a second of PyTorch on one thread of an AMD EPYC; for `train`, the number of rounds in
    /// docs/models.md.
    pub steps: u32,
}

#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// A training step.
    Step { model: &'static str, batch: u32 },
    /// An iteration of token matching, for one picture.
    Matching { model: &'static str },
    /// A round of `unmask train`.
    Train,
}

const fn step(model: &'static str, batch: u32, steps: u32) -> Case {
    Case { work: Work::Step { model, batch }, steps }
}

pub const ALL: [Case; 9] = [
    step("vit_nano_patch4_32", 1, 150),
    step("vit_nano_patch4_32", 16, 20),
    step("vit_lab_patch4_32", 1, 60),
    step("vit_tiny_patch16_224", 1, 9),
    step("vit_small_patch16_224", 1, 5),
    step("resnet_nano", 16, 40),
    step("resnet34", 1, 5),
    Case { work: Work::Matching { model: "vit_lab_patch4_32" }, steps: 25 },
    Case { work: Work::Train, steps: 200 },
];

impl Case {
    /// The name of the case on the command line.
    pub fn name(&self) -> String {
        match self.work {
            Work::Step { model, batch } => format!("{model}-b{batch}"),
            Work::Matching { .. } => "matching".to_owned(),
            Work::Train => "train".to_owned(),
        }
    }

    /// The request to a program that waits for its turns.
    pub fn request(&self, steps: u32) -> String {
        match self.work {
            Work::Step { model, batch } => format!("{model} {batch} {steps}"),
            Work::Matching { model } => format!("{model} 1 {steps}"),
            Work::Train => steps.to_string(),
        }
    }
}

/// The title in the table.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::Step { model, batch } => write!(f, "{model}, batch {batch}"),
            Work::Matching { model } => write!(f, "an iteration of token matching, {model}"),
            Work::Train => f.write_str("a round of `unmask train`, 5 clients"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let names: HashSet<String> = ALL.iter().map(Case::name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn a_request_is_model_batch_and_steps() {
        assert_eq!(ALL[1].request(7), "vit_nano_patch4_32 16 7");
        assert_eq!(ALL[7].request(25), "vit_lab_patch4_32 1 25");
    }
}
