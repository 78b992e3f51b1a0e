//! Ctrl-C and the system's wish to end, for work that is worth keeping half done.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Exit code of a command that was broken off, as shells have it after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Whether somebody asked for an end.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. The first time only tells; the second ends the process, for what is too busy to ask.
    pub fn listen() -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        std::thread::spawn(move || {
            // Without a runtime either signal ends the process as it does by default.
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                asked_to_stop().await;
                flag.store(true, Ordering::Relaxed);
                asked_to_stop().await;
                std::process::exit(INTERRUPTED);
            });
        });
        Self(asked)
    }

    /// Break once somebody asked.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Ctrl-C, or the system's wish that this process end.
pub async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // Where the signal cannot be listened for, the process ends by it anyway.
        std::future::pending::<()>().await;
    }
}
