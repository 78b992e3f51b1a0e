//! One attacker's half of a card.

use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence, Rule, TrainOn};
use unmask_wire::view::SearchState;

use super::{attack, gathered::Gathered, key::Collude, search::Progress, text};
use crate::page::{
    app::{feed::Feed, gauge::Gauge, projector::Teacher},
    words,
};

/// Which attacker it is, what he sees, how close that came, and what to know about it.
#[component]
pub fn Half(
    feed: Feed,
    teacher: Teacher,
    /// The attack.
    method: AttackMethod,
) -> impl IntoView {
    let result = attack(feed, method);
    let ssim = Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| result.ssim)));
    let psnr = Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| result.psnr)));
    let picture = Memo::new(move |_| result.with(|result| result.as_ref().and_then(|result| result.picture.clone())));
    let pictures = Memo::new(move |_| result.with(|result| result.as_ref().map_or(1, |result| result.pictures.max(1))));
    let remark = Memo::new(move |_| result.with(|result| result.as_ref().and_then(|result| result.remark.clone())));
    let search = Memo::new(move |_| result.with(|result| result.as_ref().and_then(|result| result.search.clone())));
    let gathered = Memo::new(move |_| result.with(|result| result.as_ref().and_then(|result| result.gathered.clone())));
    let is_skipped = Memo::new(move |_| {
        feed.room.with(|room| room.iter().flat_map(|room| &room.budget.skipped).any(|name| name == method.name()))
    });
    let is_running =
        Memo::new(move |_| search.with(|search| search.as_ref().is_some_and(|s| s.state == SearchState::Running)));
    let is_defended =
        move || result.with(|result| result.as_ref().is_some_and(|result| result.defence != Defence::None));
    let below = Signal::derive(move || words::unrecognised(is_defended(), is_running.get()));
    let is_mixed = feed.part(|room| {
        let is_shared = room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared);
        is_shared && (room.batch > 1 || room.rule != Rule::FedSgd)
    });
    let waiting = Signal::derive(move || match (picture.with(Option::is_some), is_running.get()) {
        (true, _) if is_mixed.get() == Some(true) => "made from several pictures: none to compare with".to_owned(),
        (true, _) => "waiting for the attacked tab to compare".to_owned(),
        (false, true) => "◌ searching".to_owned(),
        (false, false) => "✓ nothing recovered".to_owned(),
    });
    let is_colluder = method == AttackMethod::Colluder;
    view! {
        <section
            class="half"
            data-testid="card"
            data-attack=method.name()
            data-round=text(result, |result| result.round.to_string())
            data-defence=text(result, |result| result.defence.to_string())
            data-client=text(result, |result| result.client.to_string())
            data-ssim=move || ssim.get().map(|ssim| ssim.to_string())
            data-psnr=move || psnr.get().map(|psnr| psnr.to_string())
            data-iteration=move || search.with(|search| search.as_ref().map(|search| search.iteration.to_string()))
            data-state=move || search.with(|search| search.as_ref().map(|search| words::search_state(search.state).0))
        >
            <h4 class="attacker">{text(result, |result| result.attacker.clone())}</h4>
            <Gauge ssim psnr below waiting/>
            <div
                class="attack-picture"
                class:blank=move || picture.with(Option::is_none)
                class:batch=move || pictures.get().gt(&1)
            >
                <Show
                    when=move || picture.with(Option::is_some)
                    fallback=|| view! { <p class="nothing">"no picture"</p> }
                >
                    <img
                        src=move || picture.get()
                        alt=text(result, |result| format!("What {} reconstructed", result.title))
                        style=move || format!("aspect-ratio:{}/1", pictures.get())
                        data-testid="reconstruction"
                    />
                </Show>
            </div>
            <div class="half-end">
                <Show when=move || search.with(Option::is_some)>
                    <Progress search/>
                </Show>
                <Show when=move || gathered.with(Option::is_some)>
                    <Gathered gathered teacher/>
                </Show>
                <Show when=move || is_colluder && teacher.may_drive()>
                    <Collude feed teacher/>
                </Show>
                <p class="remark" data-testid="remark" hidden=move || remark.with(Option::is_none)>
                    {move || remark.get()}
                </p>
                <p class="sub">
                    {text(result, |result| {
                        format!(
                            "{} · round {} · {} · {}",
                            result.nickname,
                            result.round,
                            words::defence(&result.defence),
                            words::duration(result.seconds * 1000.0),
                        )
                    })}
                    <b hidden=move || !is_skipped.get()>" · no time for the newest update"</b>
                </p>
            </div>
        </section>
    }
}
