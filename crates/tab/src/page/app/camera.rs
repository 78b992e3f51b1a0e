//! A picture from the camera: live where the browser allows it, else through the phone's own camera app.

use leptos::{html::Video, prelude::*};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{MediaDevices, MediaStream, MediaStreamConstraints, MediaStreamTrack};

use super::{
    files::FileButton,
    picture::{self, Picture},
};

/// The browser's cameras; there are none for pages opened over plain HTTP.
fn devices() -> Option<MediaDevices> {
    let devices = js_sys::Reflect::get(&window().navigator(), &"mediaDevices".into()).ok()?;
    devices.dyn_into().ok()
}

async fn open(devices: MediaDevices) -> Result<MediaStream, String> {
    let refused = |error: JsValue| {
        let reason = js_sys::Reflect::get(&error, &"name".into()).ok().and_then(|name| name.as_string());
        match reason.as_deref() {
            Some("NotAllowedError") => {
                "The browser blocks the camera. Allow it in the address bar, or choose a file.".to_owned()
            }
            Some("NotFoundError") => "This device has no camera. Choose a file or a sample.".to_owned(),
            other => format!(
                "The camera cannot be used ({}). Choose a file or a sample.",
                other.unwrap_or("no reason given")
            ),
        }
    };
    let constraints = MediaStreamConstraints::new();
    constraints.set_video(&JsValue::TRUE);
    let stream = devices.get_user_media_with_constraints(&constraints).map_err(refused)?;
    JsFuture::from(stream).await.and_then(JsCast::dyn_into).map_err(refused)
}

fn stop(stream: &MediaStream) {
    for track in stream.get_tracks().iter() {
        if let Ok(track) = track.dyn_into::<MediaStreamTrack>() {
            track.stop();
        }
    }
}

/// The camera's button, and while it runs its live picture.
#[component]
pub fn Camera(
    /// Called with the picture taken, or with a sentence on why there is none.
    on_picture: Callback<Result<Picture, String>>,
    /// Called with the file that the phone's camera app hands over.
    on_file: Callback<gloo_file::File>,
) -> impl IntoView {
    let stream = RwSignal::new_local(None::<MediaStream>);
    let video = NodeRef::<Video>::new();
    let close = move || {
        if let Some(stream) = stream.try_update(Option::take).flatten() {
            stop(&stream);
        }
    };
    on_cleanup(close);
    Effect::new(move |_| {
        if let (Some(video), Some(stream)) = (video.get(), stream.get()) {
            video.set_src_object(Some(&stream));
        }
    });
    let start = move |_| {
        let Some(devices) = devices() else { return };
        spawn_local(async move {
            match open(devices).await {
                // The form may have gone while the browser asked for permission.
                Ok(opened) if stream.is_disposed() => stop(&opened),
                Ok(opened) => stream.set(Some(opened)),
                Err(problem) => on_picture.run(Err(problem)),
            }
        });
    };
    let shoot = move |_| {
        if let Some(video) = video.get() {
            let taken = picture::from_video(&video);
            if taken.is_ok() {
                close();
            }
            on_picture.run(taken);
        }
    };
    if devices().is_none() {
        return view! { <FileButton title="Take a picture" testid="camera-input" from_camera=true on_file/> }
            .into_any();
    }
    view! {
        <Show
            when=move || stream.with(Option::is_some)
            fallback=move || {
                view! {
                    <button type="button" class="button" data-testid="camera-button" on:click=start>
                        "Use the camera"
                    </button>
                }
            }
        >
            <div class="camera">
                <video node_ref=video autoplay playsinline prop:muted=true aria-label="Live camera picture"></video>
                <div class="row">
                    <button type="button" class="button accent" data-testid="camera-shoot" on:click=shoot>
                        "Take this picture"
                    </button>
                    <button type="button" class="button" on:click=move |_| close()>
                        "Close the camera"
                    </button>
                </div>
            </div>
        </Show>
    }
    .into_any()
}
