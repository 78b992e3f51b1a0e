//! Handles Ctrl-C, SIGTERM and closed windows for commands that should save their partial work.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Exit code of an interrupted command, as shells report it after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Whether the user or the system asked this process to stop.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. The first signal sets the flag. The second ends the process, in case the command is too
    /// busy to check the flag.
    pub fn listen() -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        std::thread::spawn(move || {
            // Without a runtime, either signal ends the process by default.
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

    /// Returns `Break` after the first signal.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Waits for Ctrl-C or SIGTERM; on Windows also for the end of the window or of the system.
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
    #[cfg(windows)]
    {
        use tokio::signal::windows::{ctrl_break, ctrl_close, ctrl_shutdown};
        if let (Ok(mut stopped), Ok(mut closed), Ok(mut ended)) = (ctrl_break(), ctrl_close(), ctrl_shutdown()) {
            tokio::select! {
                _ = stopped.recv() => return,
                _ = closed.recv() => return,
                _ = ended.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // If the signal cannot be caught, it ends the process anyway.
        std::future::pending::<()>().await;
    }
}
