//! [`crate::protocol`] on `postMessage`: postcard bytes in a `Uint8Array`.

use js_sys::Uint8Array;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;
use wasm_bindgen::{JsCast, JsValue};

/// Why a message between page and worker could not be read or written.
#[derive(Debug, Error)]
pub enum PostError {
    /// The other side sent something that is no byte array.
    #[error("a message between page and trainer is no Uint8Array; reload the page, so that both come from one build")]
    NotBytes,
    /// The bytes are no message of this build.
    #[error(
        "a message between page and trainer cannot be read ({0}); reload the page, so that both come from one build"
    )]
    Format(#[from] postcard::Error),
}

/// The value to hand to `postMessage`.
///
/// # Errors
/// [`PostError::Format`] if postcard refuses the value.
pub fn encode<T: Serialize>(message: &T) -> Result<JsValue, PostError> {
    let bytes = postcard::to_stdvec(message)?;
    Ok(Uint8Array::from(bytes.as_slice()).into())
}

/// Reads the `data` of a `MessageEvent`.
///
/// # Errors
/// [`PostError`] if it is no byte array, or no message of this build.
pub fn decode<T: DeserializeOwned>(data: &JsValue) -> Result<T, PostError> {
    let bytes = data.dyn_ref::<Uint8Array>().ok_or(PostError::NotBytes)?.to_vec();
    Ok(postcard::from_bytes(&bytes)?)
}
