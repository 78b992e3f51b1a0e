//! What one attacker sees.

use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence, Rule, TrainOn};
use unmask_wire::view::SearchState;

use super::{colluder::Collude, gathered_rounds::GatheredRounds, search::SearchProgress};
use crate::page::{
    app::{
        feed::Feed,
        signals::{holds, optional, part},
        similarity::SimilarityGauge,
        teacher::Teacher,
    },
    words,
};

/// Which attacker it is, what it reconstructs, how close that comes, and what to know about it.
#[component]
pub fn AttackResult(feed: Feed, teacher: Teacher, method: AttackMethod) -> impl IntoView {
    let result = feed.attack(method);
    let ssim = optional(result, |result| result.ssim);
    let psnr = optional(result, |result| result.psnr);
    let remark = optional(result, |result| result.remark.clone());
    let picture = optional(result, |result| result.picture.clone());
    let picture = Memo::new(move |_| picture());
    let pictures = part(result, |result| result.pictures.max(1));
    let search = optional(result, |result| result.search.clone());
    let search = Memo::new(move |_| search());
    let gathered = optional(result, |result| result.gathered.clone());
    let gathered = Memo::new(move |_| gathered());
    let is_skipped = feed.part(move |room| room.budget.skipped.iter().any(|name| name == method.name()));
    let is_running = holds(search, |search| search.state == SearchState::Running);
    let is_defended = holds(result, |result| result.defence != Defence::None);
    let is_mixed = feed.part(|room| {
        let is_shared = room.data.as_ref().is_some_and(|data| data.train_on == TrainOn::Shared);
        is_shared && (room.batch > 1 || room.rule != Rule::FedSgd)
    });
    let waiting = move || match (picture.with(Option::is_some), is_running()) {
        (true, _) if is_mixed.get() == Some(true) => "made from several pictures, so there is none to compare with",
        (true, _) => "waiting for the client’s score",
        (false, true) => "◌ searching",
        (false, false) => "✓ nothing recovered",
    };
    view! {
        <section
            class="result"
            data-testid="card"
            data-attack=method.name()
            data-round=part(result, |result| result.round)
            data-defence=part(result, |result| result.defence.to_string())
            data-client=part(result, |result| result.client.to_string())
            data-ssim=move || ssim().map(|ssim| ssim.to_string())
            data-psnr=move || psnr().map(|psnr| psnr.to_string())
            data-iteration=part(search, |search| search.iteration)
            data-state=part(search, |search| words::key(search.state))
        >
            <h4 class="attacker">{method.attacker()}</h4>
            <SimilarityGauge
                ssim=Signal::derive(ssim)
                psnr=Signal::derive(psnr)
                below=Signal::derive(move || words::not_recognisable(is_defended(), is_running()))
                waiting=Signal::derive(move || waiting().to_owned())
            />
            <div
                class="attack-picture"
                class:blank=move || picture.with(Option::is_none)
                class:batch=move || pictures().is_some_and(|pictures| pictures != 1)
            >
                <Show
                    when=move || picture.with(Option::is_some)
                    fallback=|| view! { <p class="nothing">"no picture"</p> }
                >
                    <img
                        src=picture
                        alt=format!("Reconstruction by {}", method.title())
                        style=move || format!("aspect-ratio:{}/1", pictures().unwrap_or(1))
                        data-testid="reconstruction"
                    />
                </Show>
            </div>
            <div class="result-end">
                <Show when=move || search.with(Option::is_some)>
                    <SearchProgress search/>
                </Show>
                <Show when=move || gathered.with(Option::is_some)>
                    <GatheredRounds gathered teacher/>
                </Show>
                <Show when=move || method == AttackMethod::Colluder && teacher.is_here()>
                    <Collude feed teacher/>
                </Show>
                <p class="remark" data-testid="remark" hidden=move || remark().is_none()>{remark}</p>
                <p class="sub">
                    {part(result, |result| {
                        format!(
                            "{} · round {} · {} · {}",
                            result.nickname,
                            result.round,
                            result.defence.phrase(),
                            words::duration(result.seconds * 1000.0),
                        )
                    })}
                    <b hidden=move || is_skipped.get() != Some(true)>" · no time for the newest update"</b>
                </p>
            </div>
        </section>
    }
}
