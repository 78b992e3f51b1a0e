//! The choice of what the room trains on, and of what the model starts from.

use leptos::prelude::*;
use unmask_core::{InitialWeights, TrainOn};
use unmask_wire::view::Control;

use super::discard::DiscardButton;
use crate::page::{
    app::{feed::Feed, fields::Segments, signals::part, teacher::Teacher},
    drafts::DataDraft,
    words,
};

/// Private or shared pictures, how the shared ones are divided, and a new model.
#[component]
pub fn DataEditor(feed: Feed, teacher: Teacher) -> impl IntoView {
    let data = feed.optional(|room| room.data.clone());
    view! {
        <div class="data">
            <Show
                when=move || data.with(Option::is_some)
                fallback=|| view! { <p class="hint">"This room has no shared pictures. Start the relay with --data to have some."</p> }
            >
                <Pictures feed teacher/>
                <p class="hint" data-testid="data" data-ready=part(data, |data| data.is_ready.to_string())>
                    {part(data, words::data_set)}
                </p>
            </Show>
            <NewModel feed teacher/>
        </div>
    }
}

/// Which pictures, and how the shared ones are divided.
#[component]
fn Pictures(feed: Feed, teacher: Teacher) -> impl IntoView {
    let draft = RwSignal::new(DataDraft::default());
    let wanted = feed.optional(|room| {
        let data = room.data.as_ref()?;
        let next = room.next.clone().unwrap_or_default();
        Some((next.train_on.unwrap_or(data.train_on), next.partition.unwrap_or(data.partition)))
    });
    teacher.follow(wanted, move |(train_on, partition)| draft.update(|draft| draft.follow(train_on, partition)));
    let send_partition = move || teacher.send(Control::Partition { partition: draft.get_untracked().partition() });
    let is_skewed = Memo::new(move |_| draft.get().is_skewed);
    let alpha = move || words::number(draft.get().alpha);
    view! {
        <fieldset class="row">
            <legend class="hidden">"What the rounds train on"</legend>
            <span class="sub">"Train on"</span>
            <Segments
                row="train-on"
                options=vec![
                    (TrainOn::Private, "private", "Private pictures", "each client’s own picture, which never leaves its device"),
                    (
                        TrainOn::Shared,
                        "shared",
                        "Shared pictures",
                        "a share of a public data set for each client, so that the model learns something",
                    ),
                ]
                chosen=Signal::derive(move || draft.get().train_on)
                on_choose=move |pictures| {
                    draft.update(|draft| draft.train_on = pictures);
                    teacher.send(Control::TrainOn { pictures });
                }
            />
        </fieldset>
        <fieldset class="row">
            <legend class="hidden">"How the shared pictures are divided"</legend>
            <span class="sub">"divided"</span>
            <Segments
                row="partition"
                options=vec![
                    (false, "iid", "Evenly", "IID: every client gets some of everything"),
                    (true, "dirichlet", "By Dirichlet", "non-IID: each class is divided unevenly; the smaller alpha, the more unevenly"),
                ]
                chosen=is_skewed
                on_choose=move |is_skewed| {
                    draft.update(|draft| draft.is_skewed = is_skewed);
                    send_partition();
                }
            />
            <label class="slider" class:disabled=move || !is_skewed.get()>
                <span class="slider-value">"α = " {alpha}</span>
                <input
                    type="range"
                    min="0"
                    max=DataDraft::LAST_POSITION.to_string()
                    step="1"
                    data-testid="alpha"
                    aria-label="alpha: the smaller, the fewer classes a client has"
                    aria-valuetext=alpha
                    disabled=move || !is_skewed.get()
                    prop:value=move || draft.get().position().to_string()
                    on:input=move |event| {
                        if let Ok(position) = event_target_value(&event).parse() {
                            draft.update(|draft| draft.slide(position));
                        }
                    }
                    on:change=move |_| send_partition()
                />
            </label>
        </fieldset>
    }
}

/// A new model, with fresh weights or with trained ones.
#[component]
fn NewModel(feed: Feed, teacher: Teacher) -> impl IntoView {
    let start = feed.part(|room| room.initial_weights);
    let pretrained = feed.optional(|room| room.pretrained.clone());
    let begin = move |initial_weights| teacher.send(Control::Model { initial_weights });
    view! {
        <div class="row">
            <span class="sub">
                "The model started "
                <b data-testid="model-start" data-start=part(start, |start| start.name())>
                    {part(start, |start| words::initial_weights(*start))}
                </b>
                ". New model:"
            </span>
            <DiscardButton
                feed
                testid="model-scratch"
                title="From scratch"
                on_confirm=move |()| begin(InitialWeights::Scratch)
            />
            <DiscardButton
                feed
                testid="model-pretrained"
                title="Pretrained"
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
