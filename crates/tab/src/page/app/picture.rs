//! The private picture: decoded, cropped and scaled in this tab, and handed to the worker of this tab alone.

use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, CanvasRenderingContext2d, HtmlCanvasElement, HtmlVideoElement, ImageBitmap};

use super::pixels::Rgba;
use crate::{page::header, protocol::PICTURE_SIDE};

/// A picture of [`PICTURE_SIDE`] squared pixels.
#[derive(Clone)]
pub struct Picture {
    /// Its name for people.
    pub name: String,
    /// The pixels to show.
    pub pixels: Rgba,
}

impl Picture {
    /// The pixels as the worker takes them: RGB, row by row.
    pub fn rgb(&self) -> Vec<u8> {
        self.pixels.bytes.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
    }
}

/// Decodes a picture file with the browser's decoder, which turns it as its EXIF orientation says.
///
/// # Errors
/// A sentence that names the file: not a PNG, JPEG or WebP picture, too large, or broken.
pub async fn from_blob(name: &str, blob: &Blob) -> Result<Picture, String> {
    let unreadable = |_: JsValue| format!("“{name}” could not be read. Choose it again, or choose another file.");
    let start = blob.slice_with_i32_and_i32(0, header::HEADER_BYTES as i32).map_err(unreadable)?;
    let start = JsFuture::from(start.array_buffer()).await.map_err(unreadable)?;
    let start = js_sys::Uint8Array::new(&start).to_vec();
    header::check(name, &start).map_err(|error| error.to_string())?;

    let broken = |_: JsValue| format!("“{name}” is broken: this browser cannot decode it. Choose another picture.");
    let bitmap = window().create_image_bitmap_with_blob(blob).map_err(broken)?;
    let bitmap: ImageBitmap = JsFuture::from(bitmap).await.and_then(JsCast::dyn_into).map_err(broken)?;
    let picture = square(name, bitmap.width(), bitmap.height(), |context, crop| {
        let side = f64::from(PICTURE_SIDE);
        context.draw_image_with_image_bitmap_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
            &bitmap, crop.left, crop.top, crop.side, crop.side, 0.0, 0.0, side, side,
        )
    });
    bitmap.close();
    picture
}

/// The frame that a camera shows now.
///
/// # Errors
/// A sentence, if the camera has not delivered a frame yet or the canvas fails.
pub fn from_video(video: &HtmlVideoElement) -> Result<Picture, String> {
    let (width, height) = (video.video_width(), video.video_height());
    if width == 0 || height == 0 {
        return Err("The camera shows nothing yet. Wait a moment and try again.".to_owned());
    }
    square("camera picture", width, height, |context, crop| {
        let side = f64::from(PICTURE_SIDE);
        context.draw_image_with_html_video_element_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
            video, crop.left, crop.top, crop.side, crop.side, 0.0, 0.0, side, side,
        )
    })
}

/// The largest square in the middle of a picture.
struct Crop {
    left: f64,
    top: f64,
    side: f64,
}

fn square(
    name: &str,
    width: u32,
    height: u32,
    draw: impl FnOnce(&CanvasRenderingContext2d, Crop) -> Result<(), JsValue>,
) -> Result<Picture, String> {
    let failed = |_: JsValue| format!("“{name}” could not be drawn. Reload the page and try again.");
    let no_canvas = || "This browser offers no canvas to draw pictures with; use another browser.".to_owned();
    let canvas: HtmlCanvasElement =
        document().create_element("canvas").and_then(|element| Ok(element.dyn_into()?)).map_err(failed)?;
    canvas.set_width(PICTURE_SIDE);
    canvas.set_height(PICTURE_SIDE);
    let context: CanvasRenderingContext2d =
        canvas.get_context("2d").map_err(failed)?.and_then(|context| context.dyn_into().ok()).ok_or_else(no_canvas)?;
    // Where the property does not exist the browser's default is used.
    let _ = js_sys::Reflect::set(&context, &"imageSmoothingQuality".into(), &"high".into());
    // What is transparent becomes white, as it would on paper.
    let side = f64::from(PICTURE_SIDE);
    context.set_fill_style_str("#fff");
    context.fill_rect(0.0, 0.0, side, side);
    let shorter = f64::from(width.min(height));
    let crop =
        Crop { left: (f64::from(width) - shorter) / 2.0, top: (f64::from(height) - shorter) / 2.0, side: shorter };
    draw(&context, crop).map_err(failed)?;
    let data = context.get_image_data(0.0, 0.0, side, side).map_err(failed)?.data();
    let pixels = Rgba::new(PICTURE_SIDE, PICTURE_SIDE, &data).ok_or_else(no_canvas)?;
    Ok(Picture { name: name.to_owned(), pixels })
}
