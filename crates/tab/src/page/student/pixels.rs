//! Pictures in browsers that falsify what pages read from a canvas, against fingerprinting: with noise, with white, or in
//! a few bits. Only true pixels may be trained on.

use gloo_file::Blob;
use js_sys::{Array, Function, Promise, Reflect, Uint8Array};
use leptos::prelude::window;
use unmask_words::say;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::HtmlVideoElement;

use crate::{
    page::widgets::picture::{self, Picture},
    protocol::{PICTURE_SIDE, Rgba},
};

/// Decodes, crops and scales a picture file.
///
/// # Errors
/// A sentence that names the file: unknown format, too large, broken, or no true pixels.
pub async fn from_blob(name: &str, blob: &Blob) -> Result<Picture, String> {
    let bitmap = picture::decoded(name, blob).await?;
    let taken = match past_canvas(name, &bitmap, (bitmap.width(), bitmap.height())).await {
        Ok(None) => picture::from_bitmap(name, &bitmap),
        Ok(Some(picture)) => Ok(picture),
        Err(problem) => Err(problem),
    };
    bitmap.close();
    taken
}

/// Takes the camera's current frame.
///
/// # Errors
/// A sentence, if there is no frame or none with true pixels.
pub async fn from_video(video: &HtmlVideoElement) -> Result<Picture, String> {
    let name = say::camera::picture();
    let size = (video.video_width(), video.video_height());
    // Without a picture there is nothing to falsify.
    let past = if size.0 * size.1 > 0 { past_canvas(name, video, size).await? } else { None };
    past.map_or_else(|| picture::from_video(video), Ok)
}

/// The picture, read past the canvas (`www/pixels.html`); `None` if the canvas tells the truth.
async fn past_canvas(name: &str, source: &JsValue, (width, height): (u32, u32)) -> Result<Option<Picture>, String> {
    let falsified = |_: JsValue| say::picture::false_pixels(name);
    let given: Array = [source.clone()].into_iter().chain([width, height, PICTURE_SIDE].map(JsValue::from)).collect();
    let read: Function =
        Reflect::get(&window(), &"unmaskPixels".into()).and_then(JsCast::dyn_into).map_err(falsified)?;
    let reading: Promise = read.apply(&JsValue::NULL, &given).and_then(JsCast::dyn_into).map_err(falsified)?;
    let pixels = JsFuture::from(reading).await.map_err(falsified)?;
    // Without a value, the canvas will do.
    let bytes = pixels.dyn_ref::<Uint8Array>().map(Uint8Array::to_vec);
    let pixels = bytes.and_then(|bytes| Rgba::new(PICTURE_SIDE, PICTURE_SIDE, bytes));
    Ok(pixels.map(|pixels| Picture { name: name.to_owned(), pixels }))
}
