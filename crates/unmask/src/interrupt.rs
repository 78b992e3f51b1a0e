//! Ctrl-C, for work that is worth keeping half done.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Exit code of a command that Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Whether Ctrl-C was pressed.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. The first Ctrl-C only tells; the second ends the process, for what is too busy to ask.
    pub fn listen() -> Self {
        let pressed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&pressed);
        std::thread::spawn(move || {
            // Without a runtime Ctrl-C ends the process as it does by default.
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                if tokio::signal::ctrl_c().await.is_ok() {
                    flag.store(true, Ordering::Relaxed);
                }
                if tokio::signal::ctrl_c().await.is_ok() {
                    std::process::exit(INTERRUPTED);
                }
            });
        });
        Self(pressed)
    }

    /// Break once it was pressed.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
