//! What only the teacher may do, and what came of it.

use leptos::prelude::*;
use unmask_wire::view::Control;
use wasm_bindgen_futures::spawn_local;

use super::api;

/// The teacher's token, if this page has it, and what came of the last control.
#[derive(Clone, Copy)]
pub struct Teacher {
    token: RwSignal<Option<String>>,
    /// Why the last control failed.
    pub problem: RwSignal<Option<String>>,
    /// The control that the relay refused last, until one succeeds.
    pub refused: RwSignal<Option<Control>>,
}

impl Teacher {
    /// With the token of the page's address, now or when it changes.
    pub fn new() -> Self {
        let teacher = Self {
            token: RwSignal::new(api::take_token()),
            problem: RwSignal::new(None),
            refused: RwSignal::new(None),
        };
        // The teacher link pasted into this very tab changes the fragment only and loads nothing.
        let handle = window_event_listener(leptos::ev::hashchange, move |_| {
            if let Some(token) = api::take_token() {
                teacher.token.set(Some(token));
                teacher.problem.set(None);
            }
        });
        on_cleanup(move || handle.remove());
        teacher
    }

    /// Whether this page may use the controls.
    pub fn is_here(self) -> bool {
        self.token.with(Option::is_some)
    }

    /// The token, for what is no control.
    pub fn token(self) -> Option<String> {
        self.token.get_untracked()
    }

    /// Keeps a control in step with the room: `show` gets what the room has or will have, whenever that changes, and again
    /// whenever a control has failed.
    pub fn follow<T: Clone + PartialEq + Send + Sync + 'static>(
        self,
        room: Memo<Option<T>>,
        show: impl Fn(T) + Copy + 'static,
    ) {
        Effect::new(move |_| room.get().into_iter().for_each(show));
        Effect::new(move |_| {
            if self.problem.with(Option::is_some) {
                room.get_untracked().into_iter().for_each(show);
            }
        });
    }

    /// Sends a control whose failure is shown where it was asked for, in `problem`. Nothing of the control is kept.
    pub fn ask(self, control: Control, problem: RwSignal<Option<String>>) {
        let Some(token) = self.token() else { return };
        spawn_local(async move { problem.set(api::control(&token, &control).await.err()) });
    }

    /// Sends a control; what goes wrong is shown above the controls.
    pub fn send(self, control: Control) {
        self.send_all(vec![control]);
    }

    /// Sends controls one after the other, up to the first that fails.
    pub fn send_all(self, controls: Vec<Control>) {
        let Some(token) = self.token() else { return };
        spawn_local(async move {
            for control in controls {
                if let Err(problem) = api::control(&token, &control).await {
                    self.refused.set(Some(control));
                    self.problem.set(Some(problem));
                    return;
                }
            }
            self.refused.set(None);
            self.problem.set(None);
        });
    }
}

/// Why what was asked for beside it failed.
#[component]
pub fn Problem(problem: RwSignal<Option<String>>) -> impl IntoView {
    view! {
        <p class="problem" role="alert" data-testid="problem" hidden=move || problem.with(Option::is_none)>
            {move || problem.get()}
        </p>
    }
}
