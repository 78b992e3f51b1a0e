//! What can be wrong with tensors in a file.

/// Why tensors could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file could not be opened, read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file, or what was read.
        what: String,
        /// What the system reported.
        source: std::io::Error,
    },
    /// These are no safetensors.
    #[error("{what} is no safetensors file: {reason}; save the tensors with the safetensors library")]
    Format {
        /// The file, or what was read.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Some tensors are not as the model needs them.
    #[error("{what} does not fit: {}", list(problems))]
    Tensors {
        /// The file, or what was read.
        what: String,
        /// Every tensor that does not fit, in the order they were asked for.
        problems: Vec<TensorProblem>,
    },
    /// A flat vector is of another model.
    #[error("the vector has {given} values, the layout has {expected}")]
    Length {
        /// Values given.
        given: usize,
        /// Values of the layout.
        expected: usize,
    },
}

/// What is wrong with one tensor.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TensorProblem {
    /// It is not there.
    #[error("{name} {expected:?} is missing")]
    Missing {
        /// timm's name.
        name: String,
        /// The shape it would have.
        expected: Vec<usize>,
    },
    /// It is not in the file, and no layout says what shape it would have.
    #[error("{name} is missing")]
    Absent {
        /// Its name.
        name: String,
    },
    /// It has another shape.
    #[error("{name} has shape {given:?}, expected {expected:?}")]
    Shape {
        /// timm's name.
        name: String,
        /// The shape in the file.
        given: Vec<usize>,
        /// The shape of the layout.
        expected: Vec<usize>,
    },
    /// It holds NaN or infinity.
    #[error("{name} {shape:?} holds {value} at value {index}")]
    NonFinite {
        /// timm's name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The first such value.
        value: f64,
        /// Its place in the tensor, row-major.
        index: usize,
    },
    /// It holds a number that the type it is to be stored in does not.
    #[error("{name} holds {value} at value {index}, and f16 ends at 65504; store it as f32")]
    TooLarge {
        /// timm's name.
        name: String,
        /// The first such value.
        value: f32,
        /// Its place in the tensor, row-major.
        index: usize,
    },
    /// Its values are of a type that is no plain number.
    #[error("{name} is of type {dtype}; save it as f16, bf16, f32, f64 or u8")]
    Type {
        /// timm's name.
        name: String,
        /// The type in the file.
        dtype: String,
    },
}

/// Problems that are told one by one: of another model nearly every tensor is one.
const TOLD: usize = 6;

fn list(problems: &[TensorProblem]) -> String {
    let told: Vec<String> = problems.iter().take(TOLD).map(ToString::to_string).collect();
    match problems.len() - told.len() {
        0 => told.join("; "),
        more => format!("{}; and {more} more", told.join("; ")),
    }
}
