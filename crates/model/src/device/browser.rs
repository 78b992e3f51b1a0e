//! The browser's WebGPU, in a page or in a worker.

use js_sys::{Function, Object, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use super::{Adapter, DeviceError};

#[cfg(feature = "gpu")]
pub(super) use open::open_gpu;

#[cfg(feature = "gpu")]
mod open {
    use std::cell::RefCell;

    use burn::tensor::{Device, wgpu::WgpuInitError};

    use super::{Adapter, DeviceError, find_adapter};

    thread_local! {
        /// Burn's runtime can be initialised only once per worker.
        static OPEN: RefCell<Option<(Device, Adapter)>> = const { RefCell::new(None) };
    }

    pub(in super::super) async fn open_gpu() -> Result<(Device, Adapter), DeviceError> {
        if let Some(open) = OPEN.with_borrow(Clone::clone) {
            return Ok(open);
        }
        let adapter = find_adapter().await?;
        let device = Device::wgpu_options().init_async().await.map_err(|error| match error {
            WgpuInitError::AdapterUnavailable { message, .. } => DeviceError::NoAdapter { reason: message },
            other => DeviceError::Unusable { reason: other.to_string() },
        })?;
        OPEN.set(Some((device.clone(), adapter.clone())));
        Ok((device, adapter))
    }
}

/// Returns the browser's graphics adapter without opening it.
///
/// # Errors
/// There is none.
pub async fn find_adapter() -> Result<Adapter, DeviceError> {
    // Asks the browser directly. wgpu passes on neither vendor nor architecture, which reveal SwiftShader.
    let global: JsValue = js_sys::global().into();
    let gpu = property(&property(&global, "navigator"), "gpu");
    if gpu.is_undefined() || gpu.is_null() {
        let secure = property(&global, "isSecureContext").is_truthy();
        return Err(if secure { DeviceError::NoWebGpu } else { DeviceError::InsecureContext });
    }
    let no_adapter = |reason: &str| DeviceError::NoAdapter { reason: reason.to_owned() };
    let request: Function =
        property(&gpu, "requestAdapter").dyn_into().map_err(|_| no_adapter("navigator.gpu has no requestAdapter"))?;
    let options = Object::new();
    // Setting a property of a new object cannot fail, and the option is only a preference.
    let _ = Reflect::set(&options, &"powerPreference".into(), &"high-performance".into());
    let promise: Promise = request
        .call1(&gpu, &options)
        .and_then(JsCast::dyn_into)
        .map_err(|error| no_adapter(&format!("requestAdapter failed: {error:?}")))?;
    let adapter: JsValue =
        JsFuture::from(promise).await.map_err(|error| no_adapter(&format!("requestAdapter failed: {error:?}")))?;
    if adapter.is_null() || adapter.is_undefined() {
        return Err(no_adapter("the browser offers none"));
    }
    let info = property(&adapter, "info");
    let words: Vec<String> = ["vendor", "architecture", "device", "description"]
        .into_iter()
        .filter_map(|key| property(&info, key).as_string())
        .filter(|word| !word.is_empty())
        .collect();
    let name = if words.is_empty() { "an adapter the browser does not name".to_owned() } else { words.join(" ") };
    // The flag moved from the adapter to its info; browsers have one or the other.
    let fallback =
        property(&info, "isFallbackAdapter").is_truthy() || property(&adapter, "isFallbackAdapter").is_truthy();
    Ok(Adapter::new(name, fallback))
}

/// Returns `object[key]`, or undefined if `object` is not an object.
fn property(object: &JsValue, key: &str) -> JsValue {
    Reflect::get(object, &key.into()).unwrap_or(JsValue::UNDEFINED)
}
