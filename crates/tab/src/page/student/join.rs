//! The form for the nickname, the private picture, its label, and the consent to show what leaks.

use gloo_file::File;
use leptos::{
    ev::SubmitEvent,
    html::{Button, Video},
    prelude::*,
};
use unmask_words::say;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{MediaDevices, MediaStream, MediaStreamConstraints, MediaStreamTrack};

use super::{
    draft::{JoinDraft, suggested_nickname},
    pixels,
    saved::SavedJoin,
    trainer::Trainer,
};
use crate::page::{
    logic::{
        self,
        names::{self, NICKNAME_LENGTH, SAMPLES, Sample},
    },
    widgets::{
        fields::{PassphraseField, is_open},
        part,
        picture::{FileButton, Picture, Pixels},
    },
};

/// The whole page before joining.
#[component]
pub fn JoinForm(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let join = move |event: SubmitEvent| {
        event.prevent_default();
        draft.join(trainer);
    };
    view! {
        <section class="intro">
            <p>{say::join::intro()}</p>
            <p data-testid="also-goes-to" hidden=move || draft.superlink.with(Option::is_none)>
                {part(draft.superlink, |superlink: &String| logic::also_goes_to(superlink))}
            </p>
        </section>
        <p class="banner" role="note" data-testid="no-storage" hidden=SavedJoin::is_possible()>{say::join::no_storage()}</p>
        <Rejoin draft trainer/>
        <form class="join" on:submit=join>
            <NicknameField draft/>
            <PictureField draft/>
            <div class="join-end">
                <button
                    type="submit"
                    class="button accent large"
                    data-testid="join"
                    disabled=move || draft.is_reading.get()
                >
                    {say::join::join()}
                </button>
            </div>
            <More draft/>
        </form>
    }
}

#[component]
fn NicknameField(draft: JoinDraft) -> impl IntoView {
    let roll = move |_| {
        draft.nickname.set(suggested_nickname());
        draft.nickname_problem.set(None);
    };
    view! {
        <div class="card field">
            <label for="nickname">{say::join::nickname()}</label>
            <div class="row">
                <input
                    id="nickname"
                    data-testid="nickname"
                    autocomplete="off"
                    maxlength=NICKNAME_LENGTH.to_string()
                    aria-invalid=move || draft.nickname_problem.with(Option::is_some).to_string()
                    aria-describedby="nickname-problem"
                    bind:value=draft.nickname
                    on:input=move |_| draft.nickname_problem.set(None)
                />
                <button
                    type="button"
                    class="button"
                    data-testid="nickname-roll"
                    aria-label=say::join::another_nickname()
                    title=say::join::another_nickname()
                    on:click=roll
                >
                    "⟳"
                </button>
            </div>
            <p class="problem" id="nickname-problem" role="alert" data-testid="nickname-problem">
                {move || draft.nickname_problem.get()}
            </p>
        </div>
    }
}

/// The chosen picture, the samples, a file or the camera, and the consent.
#[component]
fn PictureField(draft: JoinDraft) -> impl IntoView {
    let on_file = Callback::new(move |file: File| spawn_local(draft.take_file(file)));
    let on_picture = Callback::new(move |taken: Result<Picture, String>| {
        let choice = draft.next_choice();
        draft.take(choice, taken);
    });
    let chosen = move || {
        let sample = draft.sample.get().and_then(names::sample).map(|sample| sample.title().to_owned());
        let own = || part(draft.picture, |picture| picture.name.clone())();
        sample.or_else(own).unwrap_or_else(|| say::join::no_picture_yet().to_owned())
    };
    view! {
        <fieldset class="card field" aria-describedby="picture-problem">
            <legend>{say::join::picture()}</legend>
            <div class="picker">
                <div class="preview">
                    <Pixels
                        picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                        label=say::join::chosen()
                        class="photo"
                    />
                    <p class="caption" data-testid="picture-name">{chosen}</p>
                </div>
                <div>
                    <div class="gallery" role="group" aria-label=say::join::samples()>
                        {SAMPLES.map(|sample| view! { <Thumbnail draft sample/> }).collect_view()}
                    </div>
                    <p class="hint" hidden=move || draft.picture_problem.with(Option::is_some)>{say::join::formats()}</p>
                </div>
            </div>
            <div class="row sources">
                <FileButton title=say::join::file() testid="file" on_file/>
                <Camera on_picture on_file/>
            </div>
            <p class="problem" id="picture-problem" role="alert" data-testid="picture-problem">
                {move || draft.picture_problem.get()}
            </p>
            <Consent draft/>
        </fieldset>
    }
}

#[component]
fn Thumbnail(draft: JoinDraft, sample: Sample) -> impl IntoView {
    view! {
        <button
            type="button"
            class="thumb"
            data-testid=format!("sample-{}", sample.name)
            data-sample=sample.name
            aria-pressed=move || (draft.sample.get() == Some(sample.name)).to_string()
            on:click=move |_| spawn_local(draft.take_sample(sample, None))
        >
            <img src=format!("samples/{}", sample.file) alt="" width="96" height="96"/>
            <span class="thumb-name">{sample.title()}</span>
        </button>
    }
}

/// What most students leave as it is: the label and the passphrase, folded away.
#[component]
fn More(draft: JoinDraft) -> impl IntoView {
    // Open the fold where a label is to be chosen, and so that a problem with the address's label is visible.
    let is_more_open = RwSignal::new(false);
    Effect::new(move |_| {
        if draft.has_own_picture() || draft.label_problem.with(Option::is_some) {
            is_more_open.set(true);
        }
    });
    view! {
        <details
            class="card fold"
            data-testid="more"
            prop:open=move || is_more_open.get()
            on:toggle=move |event| is_more_open.set(is_open(&event))
        >
            <summary>{say::join::more()}</summary>
            <LabelField draft/>
            <div class="field">
                <label for="passphrase">{say::join::passphrase()}<span class="optional">" " {say::join::optional()}</span></label>
                <PassphraseField id="passphrase" value=draft.passphrase/>
                <p class="hint">{say::join::passphrase_hint()}</p>
            </div>
        </details>
    }
}

#[component]
fn LabelField(draft: JoinDraft) -> impl IntoView {
    let option = move |(place, class): (usize, String)| {
        view! {
            <option value=place.to_string() selected=move || usize::from(draft.label.get()) == place>
                {names::shown_class(&class)}
            </option>
        }
    };
    let choose = move |event| {
        if let Ok(label) = event_target_value(&event).parse() {
            draft.label.set(label);
            draft.label_problem.set(None);
        }
    };
    view! {
        <div class="field">
            <label for="label">{say::join::label()}</label>
            <select
                id="label"
                data-testid="label"
                aria-describedby="label-problem"
                prop:value=move || draft.label.get().to_string()
                on:change=choose
            >
                {move || draft.classes.get().into_iter().enumerate().map(option).collect_view()}
            </select>
            <p class="problem" id="label-problem" role="alert" data-testid="label-problem">
                {move || draft.label_problem.get()}
            </p>
            <p class="hint">{say::join::label_hint()}</p>
        </div>
    }
}

/// Rejoins the room with one tap after a reload.
#[component]
fn Rejoin(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    view! {
        <Show when=move || draft.saved.with(Option::is_some)>
            <section class="card rejoin">
                <Pixels
                    picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                    label=say::join::private_picture()
                    class="photo"
                />
                <div>
                    <h2>{part(draft.saved, |saved| say::join::was_here(&saved.nickname))}</h2>
                    <p class="sub">{say::join::kept()}</p>
                </div>
                <div class="row">
                    <button type="button" class="button accent large" data-testid="rejoin" on:click=move |_| draft.join(trainer)>
                        {say::join::rejoin()}
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
                        {say::join::someone_else()}
                    </button>
                </div>
            </section>
        </Show>
    }
}

/// Asks for consent; only for the student's own pictures, since samples are public. `on_change` gets the answers: whether
/// the class may see what leaks, and whether other phones may attack the masked numbers.
#[component]
pub fn Consent(draft: JoinDraft, #[prop(into, optional)] on_change: Option<Callback<(bool, bool)>>) -> impl IntoView {
    let answer = move |may_show, may_lend| {
        draft.agree(may_show, may_lend);
        if let Some(on_change) = on_change {
            on_change.run((draft.may_show.get_untracked(), draft.may_lend.get_untracked()));
        }
    };
    view! {
        <div class="consent" hidden=move || !draft.has_own_picture()>
            <label class="choice">
                <input
                    type="checkbox"
                    data-testid="may-show"
                    prop:checked=move || draft.may_show.get()
                    on:change=move |event| answer(event_target_checked(&event), draft.may_lend.get_untracked())
                />
                <span>{say::join::may_show()}</span>
            </label>
            <p class="hint">{say::join::may_show_hint()}</p>
            <label class="choice">
                <input
                    type="checkbox"
                    data-testid="may-lend"
                    prop:checked=move || draft.may_lend.get()
                    disabled=move || !draft.may_show.get()
                    on:change=move |event| answer(draft.may_show.get_untracked(), event_target_checked(&event))
                />
                <span>{say::join::may_lend()}</span>
            </label>
            <p class="hint">{say::join::may_lend_hint()}</p>
        </div>
    }
}

/// The browser's media devices. Pages opened over plain HTTP have none.
fn devices() -> Option<MediaDevices> {
    let devices = js_sys::Reflect::get(&window().navigator(), &"mediaDevices".into()).ok()?;
    devices.dyn_into().ok()
}

async fn open(devices: MediaDevices) -> Result<MediaStream, String> {
    let refused = |error: JsValue| {
        let reason = js_sys::Reflect::get(&error, &"name".into()).ok().and_then(|name| name.as_string());
        match reason.as_deref() {
            Some("NotAllowedError") => say::camera::blocked().to_owned(),
            Some("NotFoundError") => say::camera::missing().to_owned(),
            other => say::camera::unusable(other.unwrap_or(say::camera::no_reason())),
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

/// The camera's stream while it is on.
type Stream = RwSignal<Option<MediaStream>, LocalStorage>;

/// Turns the camera off.
fn close(stream: Stream) {
    if let Some(stream) = stream.try_update(Option::take).flatten() {
        stop(&stream);
    }
}

/// The camera's button and, while it is on, its live picture.
#[component]
pub fn Camera(
    /// Called with the picture, or with a sentence that says why there is none.
    on_picture: Callback<Result<Picture, String>>,
    /// Called with the file from the phone's camera app.
    on_file: Callback<File>,
) -> impl IntoView {
    let stream = Stream::new_local(None);
    let [open_button, shoot_button] = [(); 2].map(|()| NodeRef::<Button>::new());
    on_cleanup(move || close(stream));
    // The pressed button is gone. The other one takes the focus and scrolls into view below the live picture.
    Effect::new(move |was_open: Option<Option<bool>>| {
        let (is_open, was_open) = (stream.with(Option::is_some), was_open.flatten());
        let Some(button) = (if is_open { shoot_button } else { open_button }).get() else { return was_open };
        if was_open.is_some_and(|was_open| was_open != is_open) {
            // The page works without this.
            let _ = button.focus();
        }
        Some(is_open)
    });
    let start = move |_| {
        let Some(devices) = devices() else { return };
        spawn_local(async move {
            match open(devices).await {
                // The form may have closed while the browser asked for permission.
                Ok(opened) if stream.is_disposed() => stop(&opened),
                Ok(opened) => stream.set(Some(opened)),
                Err(problem) => on_picture.run(Err(problem)),
            }
        });
    };
    if devices().is_none() {
        return view! { <FileButton title=say::camera::phone() testid="camera-input" from_camera=true on_file/> }
            .into_any();
    }
    view! {
        <Show
            when=move || stream.with(Option::is_some)
            fallback=move || {
                view! {
                    <button node_ref=open_button type="button" class="button" data-testid="camera-button" on:click=start>
                        {say::camera::open()}
                    </button>
                }
            }
        >
            <Viewfinder stream shoot_button on_picture/>
        </Show>
    }
    .into_any()
}

/// The live picture, and the buttons that take it or turn the camera off.
#[component]
fn Viewfinder(
    stream: Stream,
    shoot_button: NodeRef<Button>,
    on_picture: Callback<Result<Picture, String>>,
) -> impl IntoView {
    let video = NodeRef::<Video>::new();
    Effect::new(move |_| {
        if let (Some(video), Some(stream)) = (video.get(), stream.get()) {
            video.set_src_object(Some(&stream));
        }
    });
    let shoot = move |_| {
        let Some(video) = video.get() else { return };
        spawn_local(async move {
            let taken = pixels::from_video(&video).await;
            if taken.is_ok() {
                close(stream);
            }
            on_picture.run(taken);
        });
    };
    view! {
        <div class="camera">
            <video node_ref=video autoplay playsinline prop:muted=true aria-label=say::camera::live()></video>
            <div class="row">
                <button node_ref=shoot_button type="button" class="button accent" data-testid="camera-shoot" on:click=shoot>
                    {say::camera::shoot()}
                </button>
                <button type="button" class="button" on:click=move |_| close(stream)>
                    {say::camera::close()}
                </button>
            </div>
        </div>
    }
}
