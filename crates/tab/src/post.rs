//! Sends [`crate::protocol`] messages with `postMessage`: a JavaScript value, and its buffers, which are transferred
//! instead of copied.

use js_sys::{Array, Object, Uint8Array};
use serde::{Serialize, de::DeserializeOwned};
use serde_wasm_bindgen::Serializer;
use thiserror::Error;
use wasm_bindgen::{JsCast, JsValue};

/// A message between page and worker that could not be read or written.
#[derive(Debug, Error)]
#[error("a message between page and trainer cannot be read ({0}); reload the page, so that both come from one build")]
pub struct PostError(#[from] serde_wasm_bindgen::Error);

/// Encodes a message: the value for `postMessage` and its list of buffers to transfer.
///
/// # Errors
/// If serde refuses the value.
pub fn encode<T: Serialize>(message: &T) -> Result<(JsValue, Array), PostError> {
    // A JavaScript number cannot represent every integer beyond 2^53.
    let value = message.serialize(&Serializer::new().serialize_large_number_types_as_bigints(true))?;
    let buffers = Array::new();
    collect_buffers(&value, &buffers);
    Ok((value, buffers))
}

/// Decodes the `data` of a `MessageEvent`.
///
/// # Errors
/// If it is not a message of this build.
pub fn decode<T: DeserializeOwned>(data: JsValue) -> Result<T, PostError> {
    Ok(serde_wasm_bindgen::from_value(data)?)
}

fn collect_buffers(value: &JsValue, buffers: &Array) {
    if let Some(bytes) = value.dyn_ref::<Uint8Array>() {
        buffers.push(&bytes.buffer());
    } else if let Some(object) = value.dyn_ref::<Object>() {
        for part in Object::values(object).iter() {
            collect_buffers(&part, buffers);
        }
    }
}
