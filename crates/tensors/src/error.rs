//! Errors of tensor files.

use unmask_core::Architecture;

#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("{what} holds no tensors that can be read: {reason}")]
    Format { what: String, reason: String },
    #[error(
        "{what} comes from a deeper model than {architecture}: it holds {block}, the first that {architecture} lacks, and \
         {blocks} blocks in all; name the model that it comes from"
    )]
    MoreBlocks { what: String, architecture: Architecture, block: String, blocks: usize },
    #[error("{what} does not fit: {}", list(problems))]
    Tensors { what: String, problems: Vec<TensorProblem> },
    #[error("the vector has {given} values, the layout has {expected}")]
    Length { given: usize, expected: usize },
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TensorProblem {
    #[error("{name} {expected:?} is missing")]
    Missing { name: String, expected: Vec<usize> },
    #[error("{name} is missing")]
    Absent { name: String },
    #[error("{name} has shape {given:?}, expected {expected:?}")]
    Shape { name: String, given: Vec<usize>, expected: Vec<usize> },
    #[error("{name} {shape:?} holds {value} at value {index}")]
    NonFinite { name: String, shape: Vec<usize>, value: f64, index: usize },
    #[error("{name} holds {value} at value {index}, above f16's maximum of 65504; store it as f32")]
    TooLarge { name: String, value: f32, index: usize },
    #[error("{name} has type {dtype}; save it as f16, bf16, f32, f64 or u8")]
    Type { name: String, dtype: String },
}

/// Number of problems listed. With another model's file, nearly every tensor has one.
const TOLD: usize = 6;

fn list(problems: &[TensorProblem]) -> String {
    let told: Vec<String> = problems.iter().take(TOLD).map(ToString::to_string).collect();
    match problems.len() - told.len() {
        0 => told.join("; "),
        more => format!("{}; and {more} more", told.join("; ")),
    }
}
