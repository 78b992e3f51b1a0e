//! Whether a photograph that the teacher drops was the client's.

use gloo_file::File;
use leptos::prelude::*;
use unmask_wire::view::{Control, MembershipView};
use wasm_bindgen_futures::spawn_local;
use web_sys::DragEvent;

use super::residual_plot::ResidualPlot;
use crate::page::{
    app::{
        api,
        feed::Feed,
        files::{FileButton, dropped_file, keep_page},
        picture,
        signals::{holds, optional, part},
        teacher::{Problem, Teacher},
    },
    words,
};

/// Takes a photograph, and says whether the update was made from it. To others than the teacher only what came of one is shown.
#[component]
pub fn MembershipCard(feed: Feed, teacher: Teacher) -> impl IntoView {
    let membership = feed.optional(|room| room.membership.clone());
    let is_over = RwSignal::new(false);
    let is_busy = RwSignal::new(false);
    let problem = RwSignal::new(None);
    let take = move |file: Option<File>| {
        let Some(file) = file.filter(|_| untrack(|| teacher.is_here())) else { return };
        is_busy.set(true);
        spawn_local(async move {
            let sent = async {
                let picture = picture::from_blob(&file.name(), &file).await?;
                teacher.checked(api::candidate(&picture::png(&picture).await?).await)
            };
            problem.set(sent.await.err());
            is_busy.set(false);
        });
    };
    keep_page();
    let has_candidate = move || membership.with(Option::is_some);
    let has_residual = holds(membership, |membership| membership.residual.is_some());
    view! {
        <article
            class="card finding membership"
            class:over=move || is_over.get() && teacher.is_here()
            data-testid="membership"
            data-verdict=optional(membership, |membership| membership.verdict.map(|verdict| verdict.to_string()))
            data-round=part(membership, |membership| membership.round)
            hidden=move || !teacher.is_here() && !has_candidate()
            on:dragover=move |_| is_over.set(true)
            on:dragleave=move |_| is_over.set(false)
            on:drop=move |event: DragEvent| {
                event.prevent_default();
                is_over.set(false);
                take(dropped_file(&event));
            }
        >
            <h3>"Was this photograph in the update?"</h3>
            <Show when=has_candidate>
                <div class="candidate">
                    <img src=part(membership, |membership| membership.picture.clone()) alt="The photograph as the model sees it"/>
                    <div>
                        <p class="verdict-line" role="status">
                            {part(membership, words::membership)}
                        </p>
                        <p>{optional(membership, |membership| membership.remark.clone())}</p>
                        <p class="sub">
                            {optional(membership, |membership| {
                                let MembershipView { nickname, round, defence, .. } = membership;
                                (*round > 0).then(|| format!("{nickname} · round {round} · {}", defence.phrase()))
                            })}
                        </p>
                    </div>
                </div>
            </Show>
            <Show when=has_residual>
                <ResidualPlot membership/>
            </Show>
            <Show when=move || teacher.is_here()>
                <div class="drop">
                    <p>
                        {move || if is_busy.get() { "Sending the photograph…" } else { "Drop a photograph on this card, or" }}
                    </p>
                    <FileButton title="choose a file" testid="candidate-file" on_file=move |file| take(Some(file))/>
                    <button
                        type="button"
                        class="button"
                        data-testid="forget-candidate"
                        hidden=move || !has_candidate()
                        on:click=move |_| teacher.ask(Control::ForgetCandidate, problem)
                    >
                        "Forget it"
                    </button>
                </div>
                <p class="hint" hidden=has_candidate>
                    "The relay compares it with the newest update. Anyone who has a photograph of someone can make this guess."
                </p>
                <Problem problem/>
            </Show>
        </article>
    }
}
