//! Pictures are chosen or dropped, decoded, cropped, scaled and drawn in this tab. A private one goes only to this
//! tab's worker.

use gloo_file::{Blob, File, futures::read_as_bytes};
use leptos::{html::Canvas, prelude::*};
use unmask_words::say;
use wasm_bindgen::{Clamped, JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    CanvasRenderingContext2d, DragEvent, HtmlCanvasElement, HtmlInputElement, HtmlVideoElement, ImageBitmap, ImageData,
};

use crate::{
    page::logic::input::{FORMATS, HEADER_BYTES, check_picture},
    protocol::{PICTURE_SIDE, Rgba},
};

/// A square picture with a side of [`PICTURE_SIDE`] pixels.
#[derive(Clone)]
pub struct Picture {
    /// Shown to people.
    pub name: String,
    pub pixels: Rgba,
}

/// Decodes, crops and scales a picture file.
///
/// # Errors
/// Those of [`decoded`] and [`from_bitmap`].
pub async fn from_blob(name: &str, blob: &Blob) -> Result<Picture, String> {
    let bitmap = decoded(name, blob).await?;
    let picture = from_bitmap(name, &bitmap);
    bitmap.close();
    picture
}

/// Decodes a picture file with the browser's decoder, which applies the EXIF orientation.
///
/// # Errors
/// A sentence that names the file: unknown format, too large, or broken.
pub async fn decoded(name: &str, blob: &Blob) -> Result<ImageBitmap, String> {
    let start = read_as_bytes(&blob.slice(0, HEADER_BYTES)).await;
    let start = start.map_err(|_| say::picture::unread(name))?;
    check_picture(name, &start).map_err(|error| error.sentence())?;

    let broken = |_: JsValue| say::picture::broken(name);
    let bitmap = window().create_image_bitmap_with_blob(blob.as_ref()).map_err(broken)?;
    JsFuture::from(bitmap).await.and_then(JsCast::dyn_into).map_err(broken)
}

/// Crops and scales a decoded picture.
///
/// # Errors
/// A sentence, if the canvas fails.
pub fn from_bitmap(name: &str, bitmap: &ImageBitmap) -> Result<Picture, String> {
    square(name, bitmap.width(), bitmap.height(), |context, crop| {
        let side = f64::from(PICTURE_SIDE);
        context.draw_image_with_image_bitmap_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
            bitmap, crop.left, crop.top, crop.side, crop.side, 0.0, 0.0, side, side,
        )
    })
}

/// Takes the camera's current frame.
///
/// # Errors
/// A sentence, if there is no frame or the canvas fails.
pub fn from_video(video: &HtmlVideoElement) -> Result<Picture, String> {
    let (width, height) = (video.video_width(), video.video_height());
    if width == 0 || height == 0 {
        return Err(say::camera::nothing_yet().to_owned());
    }
    square(say::camera::picture(), width, height, |context, crop| {
        let side = f64::from(PICTURE_SIDE);
        context.draw_image_with_html_video_element_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
            video, crop.left, crop.top, crop.side, crop.side, 0.0, 0.0, side, side,
        )
    })
}

/// Encodes the picture as a PNG file, without loss.
///
/// # Errors
/// A sentence, if the canvas fails.
pub async fn png(picture: &Picture) -> Result<Blob, String> {
    let failed = |_: JsValue| unsaved(&picture.name);
    let Rgba { width, height, bytes } = &picture.pixels;
    let data = ImageData::new_with_u8_clamped_array_and_sh(Clamped(bytes), *width, *height).map_err(failed)?;
    let (canvas, context) = canvas(&picture.name, *width, *height)?;
    context.put_image_data(&data, 0.0, 0.0).map_err(failed)?;
    let encoded = js_sys::Promise::new(&mut |resolve, reject| {
        let asked = canvas.to_blob_with_type(&resolve, "image/png");
        if let Err(error) = asked {
            // The promise awaited below reports the error.
            let _ = reject.call1(&JsValue::NULL, &error);
        }
    });
    // A browser that cannot encode the canvas returns null.
    let blob: web_sys::Blob = JsFuture::from(encoded).await.and_then(JsCast::dyn_into).map_err(failed)?;
    Ok(blob.into())
}

/// The largest centred square of a picture.
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
    let failed = |_: JsValue| undrawn(name);
    let (_, context) = canvas(name, PICTURE_SIDE, PICTURE_SIDE)?;
    // A browser without this property uses its default.
    let _ = js_sys::Reflect::set(&context, &"imageSmoothingQuality".into(), &"high".into());
    // Transparent areas become white.
    let side = f64::from(PICTURE_SIDE);
    context.set_fill_style_str("#fff");
    context.fill_rect(0.0, 0.0, side, side);
    let shorter = f64::from(width.min(height));
    let crop =
        Crop { left: (f64::from(width) - shorter) / 2.0, top: (f64::from(height) - shorter) / 2.0, side: shorter };
    draw(&context, crop).map_err(failed)?;
    let data = context.get_image_data(0.0, 0.0, side, side).map_err(failed)?.data();
    let pixels = Rgba::new(PICTURE_SIDE, PICTURE_SIDE, data.to_vec()).ok_or_else(|| undrawn(name))?;
    Ok(Picture { name: name.to_owned(), pixels })
}

/// A canvas that is not on the page.
fn canvas(name: &str, width: u32, height: u32) -> Result<(HtmlCanvasElement, CanvasRenderingContext2d), String> {
    let failed = |_: JsValue| undrawn(name);
    let canvas: HtmlCanvasElement =
        document().create_element("canvas").and_then(|element| Ok(element.dyn_into()?)).map_err(failed)?;
    canvas.set_width(width);
    canvas.set_height(height);
    let context = canvas.get_context("2d").map_err(failed)?.and_then(|context| context.dyn_into().ok());
    let context = context.ok_or_else(|| say::picture::no_canvas().to_owned())?;
    Ok((canvas, context))
}

fn unsaved(name: &str) -> String {
    say::picture::unsaved(name)
}

fn undrawn(name: &str) -> String {
    say::picture::undrawn(name)
}

/// A canvas that shows the latest picture, one canvas pixel for each of its pixels; styles scale it.
#[component]
pub fn Pixels(
    #[prop(into)] picture: Signal<Option<Rgba>>,
    /// A description for screen readers.
    #[prop(into)]
    label: String,
    #[prop(optional)] class: &'static str,
) -> impl IntoView {
    let canvas = NodeRef::<Canvas>::new();
    Effect::new(move |_| {
        let (Some(canvas), Some(picture)) = (canvas.get(), picture.get()) else { return };
        let Ok(data) =
            ImageData::new_with_u8_clamped_array_and_sh(Clamped(&picture.bytes), picture.width, picture.height)
        else {
            return;
        };
        let Ok(Some(context)) = canvas.get_context("2d") else { return };
        let Ok(context) = context.dyn_into::<CanvasRenderingContext2d>() else { return };
        canvas.set_width(picture.width);
        canvas.set_height(picture.height);
        // This fails only for a detached buffer, which cannot happen here.
        let _ = context.put_image_data(&data, 0.0, 0.0);
    });
    view! { <canvas node_ref=canvas class=format!("pixels {class}") role="img" aria-label=label width="1" height="1"></canvas> }
}

/// A button that opens the browser's file dialogue.
#[component]
pub fn FileButton(
    title: &'static str,
    testid: &'static str,
    /// Whether it takes pictures from the phone's camera app only, in any format.
    #[prop(optional)]
    from_camera: bool,
    #[prop(into)] on_file: Callback<File>,
) -> impl IntoView {
    view! {
        <label class="button file-button">
            {title}
            <input
                type="file"
                accept=if from_camera { "image/*" } else { FORMATS }
                capture=from_camera.then_some("user")
                data-testid=testid
                on:change=move |event| {
                    let input: HtmlInputElement = event_target(&event);
                    if let Some(file) = input.files().and_then(|files| files.get(0)) {
                        on_file.run(file.into());
                    }
                    // Choosing the same file again must count as a change.
                    input.set_value("");
                }
            />
        </label>
    }
}

/// Stops the browser from opening a photograph that is dropped outside the drop area.
pub fn keep_page() {
    for handle in [
        window_event_listener(leptos::ev::dragover, |event| event.prevent_default()),
        window_event_listener(leptos::ev::drop, |event| event.prevent_default()),
    ] {
        on_cleanup(move || handle.remove());
    }
}

pub fn dropped_file(event: &DragEvent) -> Option<File> {
    event.data_transfer()?.files()?.get(0).map(File::from)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    use super::*;

    wasm_bindgen_test_configure!(run_in_browser);

    #[wasm_bindgen_test]
    async fn a_saved_picture_is_read_as_it_was() {
        let pixels = PICTURE_SIDE * PICTURE_SIDE;
        let bytes: Vec<u8> = (0..pixels).flat_map(|i| [i as u8, (i * 7) as u8, (i >> 8) as u8, 255]).collect();
        let pixels = Rgba::new(PICTURE_SIDE, PICTURE_SIDE, bytes.clone()).expect("four bytes a pixel");
        let saved = png(&Picture { name: "a pattern".to_owned(), pixels }).await.expect("a file");
        assert_eq!(saved.raw_mime_type(), "image/png");
        let read = from_blob("a pattern", &saved).await.expect("a picture");
        assert!(read.pixels.bytes[..] == bytes[..], "saving changed the pixels");
    }

    #[wasm_bindgen_test]
    async fn of_what_moves_the_first_frame_is_taken_and_avif_is_decoded() {
        let files: [(&str, &[u8]); 2] = [
            ("two_frames.gif", include_bytes!("../../../tests/pictures/two_frames.gif")),
            ("red.avif", include_bytes!("../../../tests/pictures/red.avif")),
        ];
        for (name, file) in files {
            let read = from_blob(name, &Blob::new(file)).await.expect("a picture");
            let middle = 4 * (PICTURE_SIDE * (PICTURE_SIDE + 1) / 2) as usize;
            let [red, green, blue, _] = read.pixels.bytes[middle..middle + 4] else { panic!("four bytes a pixel") };
            assert!(red > 150 && green < 80 && blue < 80, "{name}: {red} {green} {blue}");
        }
    }

    #[wasm_bindgen_test]
    async fn what_is_no_picture_is_refused_by_name() {
        let refusal = from_blob("notes.png", &Blob::new("no picture at all")).await.err().expect("a refusal");
        assert!(refusal.contains("notes.png"), "{refusal}");
    }
}
