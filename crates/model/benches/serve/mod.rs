//! Our side of `cargo xtask bench-peers`: a benchmark that waits for requests on stdin.

use std::{
    io::{BufRead, Write},
    time::Instant,
};

/// Uncounted runs: the first ones allocate.
pub const WARM_UP: usize = 2;

/// Returns whether the program should wait for requests.
pub fn is_asked() -> bool {
    std::env::args().any(|word| word == "--serve")
}

/// Answers each line "MODEL BATCH STEPS" on stdin with the milliseconds of each step. `prepare` builds the work for
/// each line from scratch, so that no turn affects the next.
///
/// The first output line names the program.
pub fn answer<W: FnMut()>(mut prepare: impl FnMut(&str, usize) -> W) {
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).expect("somebody who listens");
    };
    say(concat!("unmask ", env!("CARGO_PKG_VERSION")));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line of text");
        let mut words = line.split_whitespace();
        let model = words.next().expect("a model");
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number");
        let (batch, steps) = (number(), number());
        let mut work = prepare(model, batch);
        (0..WARM_UP).for_each(|_| work());
        let milliseconds: Vec<String> = (0..steps)
            .map(|_| {
                let start = Instant::now();
                work();
                format!("{:.4}", start.elapsed().as_secs_f64() * 1e3)
            })
            .collect();
        say(&milliseconds.join(" "));
    }
}
