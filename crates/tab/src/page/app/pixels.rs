//! Raw pixels on a canvas.

use leptos::{html::Canvas, prelude::*};
use wasm_bindgen::{Clamped, JsCast};
use web_sys::{CanvasRenderingContext2d, ImageData};

use crate::protocol::Rgba;

/// A canvas that always shows the last picture, one canvas pixel a picture pixel; styles scale it.
#[component]
pub fn Pixels(
    #[prop(into)] picture: Signal<Option<Rgba>>,
    /// What it shows, for those who cannot see it.
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
        // It can only fail for a detached buffer, which this one is not; the canvas then stays empty.
        let _ = context.put_image_data(&data, 0.0, 0.0);
    });
    view! { <canvas node_ref=canvas class=format!("pixels {class}") role="img" aria-label=label width="1" height="1"></canvas> }
}
