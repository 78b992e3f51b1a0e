//! What only the teacher may do, and what came of it.

use leptos::prelude::*;
use unmask_wire::view::{Control, Role};
use wasm_bindgen_futures::spawn_local;

use super::{api, session::Session};

/// The controls of a page whose session is the teacher's, and what came of the last one.
#[derive(Clone, Copy)]
pub struct Teacher {
    session: Session,
    /// Why the last control failed.
    pub problem: RwSignal<Option<String>>,
    /// The control that the relay refused last, until one succeeds.
    pub refused: RwSignal<Option<Control>>,
}

impl Teacher {
    /// Nothing has been asked for yet.
    pub fn new(session: Session) -> Self {
        Self { session, problem: RwSignal::new(None), refused: RwSignal::new(None) }
    }

    /// Whether this page may use the controls.
    pub fn is_here(self) -> bool {
        self.session.role() == Some(Role::Teacher)
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
        spawn_local(async move { problem.set(self.checked(api::control(&control).await).err()) });
    }

    /// Sends a control; what goes wrong is shown above the controls.
    pub fn send(self, control: Control) {
        self.send_all(vec![control]);
    }

    /// Sends controls one after the other, up to the first that fails.
    pub fn send_all(self, controls: Vec<Control>) {
        spawn_local(async move {
            for control in controls {
                if let Err(problem) = self.checked(api::control(&control).await) {
                    self.refused.set(Some(control));
                    self.problem.set(Some(problem));
                    return;
                }
            }
            self.refused.set(None);
            self.problem.set(None);
        });
    }

    /// The same outcome. One that failed may be the first sign of a relay that does not know this page any more.
    pub fn checked(self, outcome: Result<(), String>) -> Result<(), String> {
        if outcome.is_err() {
            self.session.check();
        }
        outcome
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
