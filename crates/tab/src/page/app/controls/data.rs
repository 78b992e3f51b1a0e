//! The choice of what the room trains on, and of what the model begins with.

use leptos::prelude::*;
use unmask_core::{InitialWeights, Partition, TrainOn};
use unmask_wire::view::Control;

use super::{confirm::ConfirmButton, discarded, segment::Segment};
use crate::page::{
    app::{feed::Feed, projector::Teacher},
    division::Division,
    words,
};

/// What the data controls show.
#[derive(Clone, Copy, PartialEq, Default)]
struct Draft {
    train_on: TrainOn,
    division: Division,
}

/// Private or shared pictures, how the shared ones are divided, and a new model.
#[component]
pub fn DataEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let data = feed.part(|room| room.data.clone());
    let data = Memo::new(move |_| data.get().flatten());
    view! {
        <div class="data">
            <Show
                when=move || data.with(Option::is_some)
                fallback=|| view! { <p class="hint">"This room has no pictures to share out; start the relay with --data to have some."</p> }
            >
                <Pictures feed teacher/>
                <p class="hint" data-testid="data" data-ready=move || data.with(|data| data.as_ref().map(|data| data.is_ready.to_string()))>
                    {move || data.with(|data| data.as_ref().map(words::spread_of))}
                </p>
            </Show>
            <NewModel feed teacher/>
        </div>
    }
}

/// Which pictures, and how the shared ones are divided.
#[component]
fn Pictures(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(Draft::default());
    let wanted = feed.part(|room| {
        let data = room.data.as_ref()?;
        let next = room.next.clone().unwrap_or_default();
        let train_on = next.train_on.unwrap_or(data.train_on);
        Some((train_on, next.partition.unwrap_or(data.partition)))
    });
    let follow = move |wanted: Option<(TrainOn, Partition)>| {
        if let Some((train_on, partition)) = wanted {
            draft.update(|draft| {
                draft.train_on = train_on;
                draft.division.follow(partition);
            });
        }
    };
    Effect::new(move |_| follow(wanted.get().flatten()));
    teacher.on_failure(move || follow(wanted.get_untracked().flatten()));
    let choose = move |pictures: TrainOn| {
        draft.update(|draft| draft.train_on = pictures);
        teacher.send(Control::TrainOn { pictures });
    };
    let settle = move || teacher.send(Control::Partition { partition: draft.get_untracked().division.partition() });
    let skew = move |is_skewed: bool| {
        draft.update(|draft| draft.division.is_skewed = is_skewed);
        settle();
    };
    let is_shared = Memo::new(move |_| draft.get().train_on == TrainOn::Shared);
    let is_skewed = Memo::new(move |_| draft.get().division.is_skewed);
    let alpha = move || words::number(draft.get().division.alpha);
    view! {
        <fieldset class="row">
            <legend class="hidden">"What the rounds train on"</legend>
            <span class="sub">"Train on"</span>
            <div class="segments">
                <Segment
                    row="train-on"
                    testid="train-on-private".to_owned()
                    title="Private pictures"
                    tip="each client's own picture, which never leaves its device"
                    is_chosen=Signal::derive(move || !is_shared.get())
                    on_choose=move |()| choose(TrainOn::Private)
                />
                <Segment
                    row="train-on"
                    testid="train-on-shared".to_owned()
                    title="Shared pictures"
                    tip="a share of a public data set for each client, so that the model learns something"
                    is_chosen=is_shared
                    on_choose=move |()| choose(TrainOn::Shared)
                />
            </div>
        </fieldset>
        <fieldset class="row">
            <legend class="hidden">"How the shared pictures are divided"</legend>
            <span class="sub">"divided"</span>
            <div class="segments">
                <Segment
                    row="partition"
                    testid="partition-iid".to_owned()
                    title="Evenly"
                    tip="IID: every client gets some of everything"
                    is_chosen=Signal::derive(move || !is_skewed.get())
                    on_choose=move |()| skew(false)
                />
                <Segment
                    row="partition"
                    testid="partition-dirichlet".to_owned()
                    title="By Dirichlet"
                    tip="non-IID: each class is divided unevenly, the more so the smaller alpha is"
                    is_chosen=is_skewed
                    on_choose=move |()| skew(true)
                />
            </div>
            <label class="slider" class:disabled=move || !is_skewed.get()>
                <span class="slider-value">"α = " {alpha}</span>
                <input
                    type="range"
                    min="0"
                    max=Division::LAST_PLACE.to_string()
                    step="1"
                    data-testid="alpha"
                    aria-label="alpha: the smaller, the fewer classes a client has"
                    aria-valuetext=alpha
                    disabled=move || !is_skewed.get()
                    prop:value=move || draft.get().division.place().to_string()
                    on:input=move |event| {
                        if let Ok(place) = event_target_value(&event).parse() {
                            draft.update(|draft| draft.division = Division::at(place));
                        }
                    }
                    on:change=move |_| settle()
                />
            </label>
        </fieldset>
    }
}

/// A new model, with fresh weights or with trained ones.
#[component]
fn NewModel(feed: Feed, teacher: Teacher) -> impl IntoView {
    let start = feed.part(|room| room.initial_weights);
    let pretrained = feed.part(|room| room.pretrained.clone());
    let pretrained = Memo::new(move |_| pretrained.get().flatten());
    let begin = move |initial_weights| teacher.send(Control::Model { initial_weights });
    view! {
        <div class="row">
            <span class="sub">
                "The model began "
                <b data-testid="model-start" data-start=move || start.get().map(InitialWeights::name)>
                    {move || start.get().map(words::head_start)}
                </b>
                ". New model:"
            </span>
            <ConfirmButton
                testid="model-scratch"
                title="From scratch"
                loss=discarded(feed)
                on_confirm=move |()| begin(InitialWeights::Scratch)
            />
            <ConfirmButton
                testid="model-pretrained"
                title="Pretrained"
                loss=discarded(feed)
                is_disabled=Signal::derive(move || pretrained.with(Option::is_none))
                on_confirm=move |()| begin(InitialWeights::Pretrained)
            />
        </div>
        <p class="hint">
            {move || {
                pretrained.get().unwrap_or_else(|| "There are no pretrained weights for this room’s model.".to_owned())
            }}
        </p>
    }
}
