//! The process's panic hook survives the accountant.

use std::{panic, sync::mpsc, thread};

use unmask_relay::privacy::{Mechanism, guarantee};

/// OpenDP replaces the panic hook while it calculates, so no other test may run in this process.
#[test]
fn panics_are_still_reported_after_many_threads_asked() {
    let mechanism = Mechanism { clip: Some(0.5), deviation: 1.0 };
    let before = panic::take_hook();
    let (told, tells) = mpsc::channel();
    panic::set_hook(Box::new(move |_| told.send(()).unwrap()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (1..20).for_each(|rounds| assert!(guarantee(mechanism, rounds, 1e-5).epsilon.is_some())));
        }
    });
    panic::catch_unwind(|| panic!("on purpose")).unwrap_err();
    panic::set_hook(before);
    assert_eq!(tells.try_iter().count(), 1);
}
