//! The banner of a page that was opened without HTTPS.

use leptos::prelude::*;

use super::session::Session;
use crate::page::address;

/// Says what plain HTTP costs and links to this very page under HTTPS; nothing where the context is secure.
#[component]
pub fn InsecureBanner(session: Session) -> impl IntoView {
    if window().is_secure_context() {
        return ().into_any();
    }
    // The relay says where that is to whom it lets in.
    let link = move || {
        let room = session.admitted()?.https_address?;
        let location = window().location();
        let here = location.hostname().unwrap_or_default();
        let path = location.pathname().unwrap_or_default() + &location.search().unwrap_or_default();
        address::https_twin(&here, &room, &path)
    };
    view! {
        <aside class="banner" data-testid="insecure-banner" role="note">
            <strong>"Slower, and open to listeners. "</strong>
            "Browsers allow WebGPU only over HTTPS, so this tab trains on the CPU. Whoever listens on this network sees what the relay sees. "
            {move || match link() {
                Some(address) => {
                    view! {
                        "To use the GPU and to keep listeners out, open "
                        <a href=address.clone() data-testid="secure-link">{address.clone()}</a>
                        " and accept the warning about the relay’s own certificate."
                    }
                        .into_any()
                }
                None => "The relay’s HTTPS address is on the projector.".into_any(),
            }}
        </aside>
    }
    .into_any()
}
