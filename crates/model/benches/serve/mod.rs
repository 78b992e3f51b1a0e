//! The side of `cargo xtask bench-peers` that is ours: a benchmark waits for its turn, and is asked by a line.

use std::{
    io::{BufRead, Write},
    time::Instant,
};

/// Times of this work are not counted: the first ones allocate.
pub const WARM_UP: usize = 2;

/// Whether the program was started to be asked.
pub fn is_asked() -> bool {
    std::env::args().any(|word| word == "--serve")
}

/// Answers each line of stdin, "MODEL BATCH STEPS", by a line with the milliseconds of each step. `prepare` makes the work from
/// model and batch, anew for each line: what one turn leaves behind is no part of the next.
///
/// The first line that goes out says what answers.
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
