//! Files of tensors.

mod model_files;
mod tensors;
mod weights_state;
