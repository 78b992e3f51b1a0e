//! The form in which a student chooses a nickname, a private picture and its label, and says who may see what leaks of it.

use gloo_file::File;
use leptos::{html::Video, prelude::*};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{MediaDevices, MediaStream, MediaStreamConstraints, MediaStreamTrack};

use super::{
    draft::{JoinDraft, suggested_nickname},
    trainer::{SavedJoin, Trainer},
};
use crate::page::{
    text::names::{NICKNAME_LENGTH, SAMPLES, Sample},
    widgets::{
        fields::PassphraseField,
        part,
        picture::{self, FileButton, Picture, Pixels},
    },
};

/// The form.
#[component]
pub fn JoinForm(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let on_file = Callback::new(move |file: File| spawn_local(draft.take_file(file)));
    let on_picture = Callback::new(move |taken: Result<Picture, String>| {
        let choice = draft.next_choice();
        draft.take(choice, taken);
    });
    let thumbnail = move |sample: Sample| {
        view! {
            <button
                type="button"
                class="thumb"
                data-testid=format!("sample-{}", sample.name)
                data-sample=sample.name
                aria-pressed=move || (draft.sample.get() == Some(sample.name)).to_string()
                on:click=move |_| spawn_local(draft.take_sample(sample, None))
            >
                <img src=format!("/samples/{}", sample.file) alt="" width="96" height="96"/>
                <span>{sample.name}</span>
            </button>
        }
    };
    let option = move |(place, class): (usize, String)| {
        view! {
            <option value=place.to_string() selected=move || usize::from(draft.label.get()) == place>
                {class}
            </option>
        }
    };
    view! {
        <section class="intro">
            <p>
                "This tab helps to train a shared image model, either on one of your pictures or on public ones that the relay hands out. Your picture stays on this device. Only an "
                <em>"update"</em>
                " of the model leaves it. The relay collects the updates and tries to reconstruct your picture from yours, and you can watch here whether it succeeds."
            </p>
        </section>
        <Rejoin draft trainer/>
        <form
            class="join"
            on:submit=move |event| {
                event.prevent_default();
                draft.join(trainer);
            }
        >
            <div class="card field">
                <label for="nickname"><span class="step">"1"</span>"Nickname"</label>
                <div class="row">
                    <input
                        id="nickname"
                        data-testid="nickname"
                        autocomplete="off"
                        maxlength=NICKNAME_LENGTH.to_string()
                        bind:value=draft.nickname
                    />
                    <button
                        type="button"
                        class="button"
                        data-testid="nickname-roll"
                        aria-label="Suggest another nickname"
                        title="Suggest another nickname"
                        on:click=move |_| draft.nickname.set(suggested_nickname())
                    >
                        "⟳"
                    </button>
                </div>
            </div>
            <fieldset class="card field">
                <legend><span class="step">"2"</span>"Private picture"</legend>
                <div class="picker">
                    <div class="preview">
                        <Pixels
                            picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                            label="The chosen picture"
                            class="photo"
                        />
                        <p class="caption" data-testid="picture-name">
                            {move || part(draft.picture, |picture| picture.name.clone())().unwrap_or("no picture yet".to_owned())}
                        </p>
                    </div>
                    <div class="sources">
                        <div class="gallery" role="group" aria-label="Sample photographs">
                            {SAMPLES.into_iter().map(thumbnail).collect_view()}
                        </div>
                        <div class="row">
                            <FileButton title="Choose a file" testid="file" on_file/>
                            <Camera on_picture on_file/>
                        </div>
                        <p class="hint">"PNG, JPEG or WebP, up to 64 megapixels. The square in the middle is used."</p>
                        <Consent draft/>
                    </div>
                </div>
            </fieldset>
            <div class="card field">
                <label for="label"><span class="step">"3"</span>"What it shows"</label>
                <select
                    id="label"
                    data-testid="label"
                    prop:value=move || draft.label.get().to_string()
                    on:change=move |event| {
                        if let Ok(label) = event_target_value(&event).parse() {
                            draft.label.set(label);
                        }
                    }
                >
                    {move || draft.classes.get().into_iter().enumerate().map(option).collect_view()}
                </select>
                <p class="hint">"The class that the model should learn for it. If none fits, choose the nearest: what leaks does not depend on it."</p>
            </div>
            <div class="card field">
                <label for="passphrase"><span class="step">"4"</span>"Passphrase"<span class="optional">" optional"</span></label>
                <PassphraseField id="passphrase" value=draft.passphrase/>
                <p class="hint">"Only needed if the teacher announces an encrypted round. It never leaves this tab."</p>
            </div>
            <div class="join-end">
                <p class="problem" role="alert" data-testid="problem">{move || draft.problem.get()}</p>
                <button type="submit" class="button accent large" data-testid="join">"Join"</button>
            </div>
        </form>
    }
}

/// One tap back into the room, after this page was reloaded.
#[component]
fn Rejoin(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    view! {
        <Show when=move || draft.saved.with(Option::is_some)>
            <section class="card rejoin">
                <Pixels
                    picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                    label="Your private picture"
                    class="photo"
                />
                <div>
                    <h2>{part(draft.saved, |saved| format!("You were here as {}", saved.nickname))}</h2>
                    <p class="sub">"This tab kept your nickname and picture. Nobody else has them."</p>
                </div>
                <div class="row">
                    <button type="button" class="button accent large" data-testid="rejoin" on:click=move |_| draft.join(trainer)>
                        "Rejoin"
                    </button>
                    <button
                        type="button"
                        class="button"
                        data-testid="start-anew"
                        on:click=move |_| {
                            SavedJoin::forget();
                            draft.saved.set(None);
                        }
                    >
                        "Join as someone else"
                    </button>
                </div>
            </section>
        </Show>
    }
}

/// The question, for pictures of one's own; a sample photograph is everybody's. `on_change` gets the answer.
#[component]
pub fn Consent(draft: JoinDraft, #[prop(into, optional)] on_change: Option<Callback<bool>>) -> impl IntoView {
    view! {
        <div class="consent" hidden=move || !draft.has_own_picture()>
            <label class="choice">
                <input
                    type="checkbox"
                    data-testid="may-show"
                    prop:checked=move || draft.may_show.get()
                    on:change=move |event| {
                        let may_show = event_target_checked(&event);
                        draft.may_show.set(may_show);
                        if let Some(on_change) = on_change {
                            on_change.run(may_show);
                        }
                    }
                />
                <span>"The class may see what leaks of my picture"</span>
            </label>
            <p class="hint">
                "Without it the projector never shows an attack on you. The relay gets the same updates either way, and whoever runs it could attack them unseen."
            </p>
        </div>
    }
}

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
    on_file: Callback<File>,
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
