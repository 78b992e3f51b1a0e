//! Before a lesson: what the relay's machine can tell of the network, with the remedies.

use leptos::prelude::*;
use unmask_wire::view::{NetworkFinding, Verdict};
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;

use crate::page::widgets::{
    Tongue, api,
    session::{Problem, Teacher},
};

/// A button that asks the relay, and then its findings, which the relay words in English.
#[component]
pub fn CheckNetwork(teacher: Teacher) -> impl IntoView {
    let tongue = Tongue::spoken();
    let is_asking = RwSignal::new(false);
    let findings = RwSignal::new(Vec::<NetworkFinding>::new());
    let problem = RwSignal::new(None);
    let ask = move |_| {
        is_asking.set(true);
        problem.set(None);
        spawn_local(async move {
            match api::network().await {
                Ok(found) => findings.set(found),
                Err(reason) => problem.set(teacher.checked(Err(reason)).err()),
            }
            is_asking.set(false);
        });
    };
    let said = move |say: fn() -> &'static str| move || tongue.now().speaking(say);
    let finding = move |NetworkFinding { subject, verdict, text }: NetworkFinding| {
        let (mark, name): (_, fn() -> _) = match verdict {
            Verdict::Good => ("✓", say::network::good),
            Verdict::Problem => ("✗", say::network::problem),
            Verdict::Unknown => ("?", say::network::unknown),
        };
        view! {
            <li data-testid="network-finding" data-subject=subject.clone() data-verdict=mark>
                <b>{mark} " " {said(name)}</b> <span lang="en">{format!(" {subject}: {text}")}</span>
            </li>
        }
    };
    view! {
        <div class="network" lang=move || tongue.now().tag()>
            <button type="button" class="button" data-testid="network" disabled=move || is_asking.get() on:click=ask>
                {said(say::network::button)}
            </button>
            <Problem problem/>
            <ul role="status" hidden=move || findings.with(Vec::is_empty)>
                {move || findings.get().into_iter().map(finding).collect_view()}
            </ul>
        </div>
    }
}
