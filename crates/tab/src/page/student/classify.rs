//! A picture of the student's choice and the classes that the model finds in it.

use gloo_file::File;
use leptos::prelude::*;
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;
use web_sys::DragEvent;

use super::{draft::JoinDraft, join::Camera, pixels, trainer::Trainer};
use crate::{
    page::{
        logic::{self, learning, names},
        widgets::{
            fields::{Bar, Bars},
            optional, part,
            picture::{FileButton, Picture, Pixels, dropped_file, keep_page},
        },
    },
    protocol::Prediction,
};

/// A picture and its most probable classes. `draft` provides the private picture, which can also be classified, and the
/// names of the classes.
#[component]
pub fn Classify(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let tried = RwSignal::new(None::<Picture>);
    let problem = RwSignal::new(None::<String>);
    let is_over = RwSignal::new(false);
    let take = move |taken: Result<Picture, String>| match taken {
        Ok(picture) => {
            problem.set(None);
            trainer.classify(picture.pixels.clone());
            tried.set(Some(picture));
        }
        Err(reason) => problem.set(Some(reason)),
    };
    let on_file = Callback::new(move |file: File| {
        spawn_local(async move { take(pixels::from_blob(&file.name(), &file).await) });
    });
    let on_picture = Callback::new(take);
    keep_page();
    let failure = optional(trainer.prediction, |prediction| prediction.as_ref().err().cloned());
    let failure = move || problem.get().or_else(failure);
    let waiting = move || if tried.with(Option::is_some) { why_no_answer(trainer) } else { None };
    view! {
        <section
            class="panel try"
            class:over=move || is_over.get()
            data-testid="try"
            on:dragover=move |_| is_over.set(true)
            on:dragleave=move |_| is_over.set(false)
            on:drop=move |event: DragEvent| {
                event.prevent_default();
                is_over.set(false);
                if let Some(file) = dropped_file(&event) {
                    on_file.run(file);
                }
            }
        >
            <h2>{say::details::try_own()}</h2>
            <p class="panel-summary">{say::details::try_hint()}</p>
            <div class="row">
                <button
                    type="button"
                    class="button"
                    data-testid="try-private"
                    on:click=move |_| {
                        if let Some(picture) = draft.picture.get_untracked() {
                            take(Ok(picture));
                        }
                    }
                >
                    {say::details::try_private()}
                </button>
                <FileButton title=say::join::file() testid="try-file" on_file/>
                <Camera on_picture on_file/>
                <span class="sub wide-only">{say::details::try_drop()}</span>
            </div>
            <p class="problem" role="alert" data-testid="try-problem" hidden=move || failure().is_none()>{failure}</p>
            <p class="sub" role="status" data-testid="try-waiting" hidden=move || waiting().is_none()>{waiting}</p>
            <Tried draft trainer tried/>
        </section>
    }
}

/// Why the picture sent to the worker has not been classified, or `None` if it has been.
fn why_no_answer(trainer: Trainer) -> Option<&'static str> {
    if trainer.prediction.with(Option::is_some) {
        None
    } else if trainer.training.with(Option::is_none) {
        Some(say::details::try_before())
    } else if trainer.is_busy.get() {
        Some(say::details::try_busy())
    } else {
        Some(say::details::try_asking())
    }
}

/// The picture as given and as the model sees it, and the answer.
#[component]
fn Tried(draft: JoinDraft, trainer: Trainer, tried: RwSignal<Option<Picture>>) -> impl IntoView {
    let prediction = Signal::derive(optional(trainer.prediction, |prediction| prediction.as_ref().ok().cloned()));
    let input = optional(prediction, |prediction: &Prediction| prediction.input.clone());
    view! {
        <div class="tried" hidden=move || tried.with(Option::is_none)>
            <div class="pair">
                <figure>
                    <Pixels
                        picture=Signal::derive(part(tried, |picture| picture.pixels.clone()))
                        label=say::details::tried()
                        class="tried-picture"
                    />
                    <figcaption>{part(tried, |picture| picture.name.clone())}</figcaption>
                </figure>
                <figure hidden=move || input().is_none()>
                    <Pixels picture=Signal::derive(input) label=say::details::tried_seen() class="photo"/>
                    <figcaption>{say::details::tried_seen_short()}</figcaption>
                </figure>
            </div>
            <Answer draft trainer prediction/>
        </div>
    }
}

/// The most probable classes.
#[component]
fn Answer(draft: JoinDraft, trainer: Trainer, prediction: Signal<Option<Prediction>>) -> impl IntoView {
    let shared_classes = part(trainer.shard, |shard| shard.classes.clone());
    let names = move |prediction: &Prediction| {
        if prediction.is_shared { shared_classes().unwrap_or_default() } else { draft.classes.get() }
    };
    let headline = optional(prediction, move |prediction| {
        let &(first, probability) = prediction.best.first()?;
        Some(learning::prediction(&names::class_name(&names(prediction), first), probability))
    });
    let bars = part(prediction, move |prediction| {
        let names = names(prediction);
        let bar = |&(label, probability): &(usize, f32)| Bar {
            name: names::class_name(&names, label),
            share: probability.into(),
            text: logic::percent(probability),
            is_found: false,
        };
        prediction.best.iter().map(bar).collect::<Vec<_>>()
    });
    view! {
        <div
            data-testid="try-answer"
            data-after=part(prediction, |prediction| prediction.after.to_string())
            data-shared=part(prediction, |prediction| prediction.is_shared.to_string())
            hidden=move || prediction.with(Option::is_none)
        >
            <p class="verdict-line">{headline}</p>
            <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="try-class"/>
            <p class="sub">{part(prediction, |prediction| learning::model_asked(prediction.after, prediction.classes))}</p>
        </div>
    }
}
