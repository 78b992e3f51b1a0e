//! Code shared by pages and screens. This module reads parts of values that may be missing, tracks whether the page is
//! visible, and chooses its language.

pub mod api;
pub mod feed;
pub mod fields;
#[cfg(test)]
pub mod mounted;
pub mod picture;
pub mod relay;
pub mod session;

use std::{pin::pin, time::Duration};

use futures_util::future::select;
use gloo_events::EventListener;
use gloo_timers::future::sleep;
use leptos::prelude::*;
use unmask_words::{Language, say};
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::spawn_local;
use web_sys::{HtmlElement, Storage, StorageEvent};

/// A part of `whole`, which may be missing.
pub fn part<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> U + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().map(of))
}

/// A part that `whole` may lack.
pub fn optional<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> Option<U> + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().and_then(of))
}

/// Whether `whole` is present and satisfies `is`.
pub fn holds<S, T>(
    whole: S,
    is: impl Fn(&T) -> bool + Copy + Send + Sync + 'static,
) -> impl Fn() -> bool + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
{
    move || whole.with(|whole| whole.as_ref().is_some_and(is))
}

/// Tells `seen` whether the page is visible, now and on every change, for the lifetime of the page.
pub fn watch_presence(seen: impl Fn(bool) + 'static) {
    let is_seen = || !document().hidden();
    seen(is_seen());
    EventListener::new(&document(), "visibilitychange", move |_| seen(is_seen())).forget();
}

/// Calls `returned` whenever connections may have died silently: when the page becomes visible again, when the network
/// returns, or when the browser restores the page from its back/forward cache.
pub fn on_return(returned: impl Fn() + Copy + 'static) {
    let seen = move |_: &web_sys::Event| {
        if !document().hidden() {
            returned();
        }
    };
    EventListener::new(&document(), "visibilitychange", seen).forget();
    for event in ["online", "pageshow"] {
        EventListener::new(&window(), event, move |_| returned()).forget();
    }
}

/// The storage key of the chosen language; all windows of a browser follow it.
const LANGUAGE_KEY: &str = "unmask-language";

/// The language of this page. Texts are not updated one by one; a change rebuilds everything within [`InLanguage`].
#[derive(Clone, Copy)]
pub struct Tongue {
    chosen: RwSignal<Language>,
    /// The language that was chosen last. Its texts may still be on their way.
    wanted: StoredValue<Language>,
    /// Why the page is not in that language.
    problem: RwSignal<Option<String>>,
    /// Whether the expert view is open, which is in English like its technical terms.
    is_expert: RwSignal<bool>,
}

impl Tongue {
    /// Keeps the document and `title` in step with the language. Call it once, before any text is created.
    pub fn start(wanted: Language, title: fn() -> &'static str) {
        let first = if wanted.is_known() { wanted } else { Language::English };
        first.speak();
        let tongue = Self::new(first);
        tongue.speak(wanted);
        Effect::new(move |_| {
            let language = tongue.shown();
            document().set_title(title());
            if let Some(root) = document().document_element() {
                // Tells a translator's language from the page's own (`www/translator.html`).
                let own = format!("{} {}", language.tag(), tongue.chosen.get().tag());
                // This fails only for an invalid name.
                let _ = root.set_attribute("data-own", &own).and_then(|()| root.set_attribute("lang", language.tag()));
            }
        });
        let follow = move |event: &web_sys::Event| {
            let key = event.dyn_ref::<StorageEvent>().and_then(StorageEvent::key);
            if key.is_none_or(|key| key == LANGUAGE_KEY)
                && let Some(kept) = kept_language()
            {
                tongue.speak(kept);
            }
        };
        EventListener::new(&window(), "storage", follow).forget();
        provide_context(tongue);
    }

    fn new(chosen: Language) -> Self {
        Self {
            chosen: RwSignal::new(chosen),
            wanted: StoredValue::new(chosen),
            problem: RwSignal::new(None),
            is_expert: RwSignal::new(false),
        }
    }

    /// The page's own instance.
    pub fn spoken() -> Self {
        use_context().unwrap_or_else(|| Self::new(Language::now()))
    }

    pub fn now(self) -> Language {
        self.chosen.get()
    }

    fn shown(self) -> Language {
        if self.is_expert.get() { Language::English } else { self.chosen.get() }
    }

    /// Switches to English while the expert view is open, and back to the chosen language afterwards. Call it before
    /// creating the texts.
    pub fn keep_english(self, is_expert: bool) {
        if self.is_expert.get_untracked() != is_expert {
            let language = if is_expert { Language::English } else { self.chosen.get_untracked() };
            language.speak();
            self.is_expert.set(is_expert);
        }
    }

    /// Switches to this language and stores the choice.
    pub fn choose(self, language: Language) {
        if let Some(storage) = storage() {
            // Without storage only this window switches, until it is closed.
            let _ = storage.set_item(LANGUAGE_KEY, language.tag());
        }
        self.speak(language);
    }

    /// Switches to the language after the one that was chosen last.
    pub fn choose_next(self) {
        self.choose(self.wanted.get_value().next());
    }

    fn speak(self, language: Language) {
        self.wanted.set_value(language);
        self.problem.set(None);
        if language.is_known() {
            return self.switch(language);
        }
        spawn_local(async move {
            let learned = learn(language).await;
            if self.wanted.get_value() != language {
                return;
            }
            match learned {
                Ok(()) => self.switch(language),
                Err(reason) => {
                    self.problem.set(Some(format!("{}: {reason}", language.own_name())));
                    // The list shows the old language again.
                    self.chosen.notify();
                }
            }
        });
    }

    fn switch(self, language: Language) {
        if self.chosen.get_untracked() == language {
            return;
        }
        let has_focus = is_choosing_language();
        if !self.is_expert.get_untracked() {
            language.speak();
        }
        self.chosen.set(language);
        if has_focus {
            // The switch itself has been rebuilt.
            request_animation_frame(|| {
                let switch = document().query_selector(SWITCH).ok().flatten();
                let _ = switch.and_then(|switch| switch.dyn_into::<HtmlElement>().ok()).map(|switch| switch.focus());
            });
        }
    }
}

/// How long a page waits for its texts before it appears in English.
const PATIENCE: Duration = Duration::from_secs(3);

/// The chosen language, or else the browser's first supported one. Its texts are there, or late.
pub async fn first_language() -> Language {
    let first = kept_language().unwrap_or_else(browsers_language);
    select(pin!(learn(first)), pin!(sleep(PATIENCE))).await;
    first
}

/// Loads the texts of a language.
async fn learn(language: Language) -> Result<(), String> {
    if language.is_known() {
        return Ok(());
    }
    let texts = api::bytes(&language.address()).await?;
    language.learn(&String::from_utf8_lossy(&texts)).map_err(str::to_owned)
}

/// Why the page is not in the chosen language.
#[component]
pub fn LanguageProblem() -> impl IntoView {
    let problem = Tongue::spoken().problem;
    view! {
        <p class="language-problem" role="status" data-testid="language-problem" hidden=move || problem.get().is_none()>
            {problem}
        </p>
    }
}

/// The selector of the language switch.
const SWITCH: &str = "[data-testid='language']";

fn is_choosing_language() -> bool {
    document().active_element().is_some_and(|focused| focused.matches(SWITCH).unwrap_or(false))
}

fn storage() -> Option<Storage> {
    window().local_storage().ok().flatten()
}

fn kept_language() -> Option<Language> {
    storage()?.get_item(LANGUAGE_KEY).ok().flatten().as_deref().and_then(Language::read)
}

fn browsers_language() -> Language {
    let tags: Vec<String> = window().navigator().languages().iter().filter_map(|tag| tag.as_string()).collect();
    Language::preferred(tags.iter().map(String::as_str))
}

/// Rebuilds its content whenever the language changes. State that must survive belongs outside.
#[component]
pub fn InLanguage(children: ChildrenFn) -> impl IntoView {
    let tongue = Tongue::spoken();
    move || {
        tongue.shown();
        children()
    }
}

/// A list of the languages, each under its own name.
#[component]
pub fn LanguageSwitch() -> impl IntoView {
    let tongue = Tongue::spoken();
    let option = move |language: Language| {
        view! {
            <option value=language.tag() lang=language.tag() selected=move || tongue.now() == language>
                {language.own_name()}
            </option>
        }
    };
    let label = move || {
        tongue.shown();
        say::page::language()
    };
    view! {
        <select
            class="language"
            translate="no"
            data-testid="language"
            aria-label=label
            prop:value=move || tongue.now().tag()
            on:change=move |event| {
                if let Some(language) = Language::read(&event_target_value(&event)) {
                    tongue.choose(language);
                }
            }
        >
            {Language::ALL.map(option).collect_view()}
        </select>
    }
}
