//! [`crate::protocol`] on `postMessage`: a JavaScript value, and the buffers in it that change hands and are not copied.

use js_sys::{Array, Object, Uint8Array};
use serde::{Serialize, de::DeserializeOwned};
use serde_wasm_bindgen::Serializer;
use thiserror::Error;
use wasm_bindgen::{JsCast, JsValue};

/// Why a message between page and worker could not be read or written.
#[derive(Debug, Error)]
#[error("a message between page and trainer cannot be read ({0}); reload the page, so that both come from one build")]
pub struct PostError(#[from] serde_wasm_bindgen::Error);

/// The value to hand to `postMessage`, and its list of buffers to transfer.
///
/// # Errors
/// If serde refuses the value.
pub fn encode<T: Serialize>(message: &T) -> Result<(JsValue, Array), PostError> {
    // A number beyond 2^53 would not survive as a JavaScript number.
    let value = message.serialize(&Serializer::new().serialize_large_number_types_as_bigints(true))?;
    let buffers = Array::new();
    collect_buffers(&value, &buffers);
    Ok((value, buffers))
}

/// Reads the `data` of a `MessageEvent`.
///
/// # Errors
/// If it is no message of this build.
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
