//! Whole rooms in simulated time: people, teacher, attacks, disk and network, as seeds draw them.
//!
//! `UNMASK_SEEDS` says how many seeds to run, or which: `10000`, or `17..18`.

mod bounds;
mod class;
mod hostile;
mod invariants;
mod script;
mod world;

use std::{
    collections::BTreeMap,
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use script::Step;
use world::World;

/// Seeds of the checks.
const SEEDS: u64 = 200;

/// What the seeds of the checks must reach.
const REACHED: [&str; 68] = [
    "client Chatty",
    "client Double",
    "client Garbage",
    "client Honest",
    "client Silent",
    "client Slow",
    "client Stale",
    "client Staller",
    "message Arrives",
    "message Cut",
    "message Lost",
    "message Overtaken",
    "message Repeated",
    "phase Between",
    "phase Paused",
    "phase Sealing",
    "phase Training",
    "phase Waiting",
    "heard Consent",
    "heard Device",
    "heard Forget",
    "heard Hello",
    "heard HideOriginal",
    "heard KnowGaps",
    "heard Original",
    "heard Ping",
    "heard Return",
    "heard Sealed",
    "heard Score",
    "heard Unable",
    "heard Update",
    "heard Visibility",
    "heard Vote",
    "told Accepted",
    "told Closed",
    "told Goodbye",
    "told Lesson",
    "told Loan",
    "told LoanEnded",
    "told Scored",
    "told Original",
    "told Plan",
    "told Pong",
    "told Reconstruction",
    "told Refused",
    "told Renamed",
    "told Seal",
    "told Shard",
    "told SittingOut",
    "told Waiting",
    "told Welcome",
    "teacher Approve done",
    "teacher Ban done",
    "teacher ClosePoll done",
    "teacher Defence refused",
    "teacher Lesson done",
    "teacher Lock done",
    "teacher Remove done",
    "teacher Reset done",
    "teacher Rule done",
    "teacher Search done",
    "teacher Target done",
    "teacher TrainOn done",
    "deletion that has to wait for the disk",
    "picture own",
    "picture reconstructed",
    "step StopWriting",
    "host that does not start on a full disk",
];

/// Runs a script; the error says which step broke what.
fn run(seed: u64, steps: &[Step]) -> (Result<(), (usize, String)>, BTreeMap<String, u64>) {
    let mut world = World::new(seed);
    let outcome = play(&mut world, steps);
    (outcome, world.reached)
}

fn play(world: &mut World, steps: &[Step]) -> Result<(), (usize, String)> {
    for (number, step) in steps.iter().enumerate() {
        let taken = catch_unwind(AssertUnwindSafe(|| {
            world.take(step);
            invariants::check(world)
        }));
        match taken {
            Ok(held) => held.map_err(|broken| (number, broken))?,
            Err(panic) => {
                let said = panic.downcast_ref::<String>().cloned();
                let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
                return Err((number, format!("panic: {}", said.unwrap_or_default())));
            }
        }
    }
    let at_the_end = invariants::forgotten_are_gone(world).and_then(|()| invariants::learning_goes_on(world));
    at_the_end.map_err(|broken| (steps.len(), broken))
}

/// The kind of a failure, which a shorter script must keep.
fn kind(broken: &str) -> &str {
    broken.split(':').next().unwrap_or_default()
}

/// Leaves steps out as long as the same thing breaks.
fn shortest(seed: u64, steps: &[Step], broken: &str) -> Vec<Step> {
    let mut steps = steps.to_vec();
    let mut part = steps.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + part).min(steps.len()));
            let still = run(seed, &fewer).0.is_err_and(|(_, now)| kind(&now) == kind(broken));
            if still {
                steps = fewer;
            } else {
                from += part;
            }
        }
        part /= 2;
    }
    steps
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(asked) = env::var("UNMASK_SEEDS") else { return 0..SEEDS };
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("UNMASK_SEEDS is {asked:?}"));
    match asked.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&asked),
    }
}

#[test]
fn rooms_hold_whatever_happens() {
    let seeds = seeds();
    let (next, failures, reached) =
        (AtomicU64::new(seeds.start), Mutex::new(Vec::new()), Mutex::new(BTreeMap::<String, u64>::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // Panics are part of what is looked for; their messages come with the failure.
    std::panic::set_hook(Box::new(|_| {}));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failures.lock().unwrap().len() > 3 {
                        return;
                    }
                    let steps = script::draw(seed);
                    let (outcome, found) = run(seed, &steps);
                    let mut reached = reached.lock().unwrap();
                    found.into_iter().for_each(|(what, count)| *reached.entry(what).or_default() += count);
                    drop(reached);
                    if let Err((step, broken)) = outcome {
                        failures.lock().unwrap().push((seed, steps.len(), step, broken));
                    }
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    let reached = reached.into_inner().unwrap();
    println!("What {} seeds reached:", seeds.end - seeds.start);
    for (what, count) in &reached {
        println!("{count:>8}  {what}");
    }
    let Some((seed, steps, step, broken)) = failures.first() else {
        let missing: Vec<&str> = REACHED.into_iter().filter(|what| !reached.contains_key(*what)).collect();
        assert!(seeds.end - seeds.start < SEEDS || missing.is_empty(), "not reached: {missing:?}");
        return;
    };
    for (seed, _, step, broken) in &failures {
        println!("seed {seed}, step {step}: {broken}");
    }
    let script = script::draw(*seed);
    let short = shortest(*seed, &script[..(*step + 1).min(script.len())], broken);
    let end = run(*seed, &short).0.err().map_or_else(String::new, |(_, broken)| broken);
    let lines: Vec<String> = short.iter().map(|step| format!("    {step:?}")).collect();
    panic!(
        "seed {seed} breaks a room at step {step} of {steps}: {broken}\nThe shortest script:\n{}\nIts end: {end}\nRepeat: \
         UNMASK_SEEDS={seed}..{} cargo test --release -p unmask-room --test simulation",
        lines.join("\n"),
        seed + 1
    );
}

/// The same seed always does the same.
#[test]
fn a_seed_repeats_to_the_bit() {
    for seed in [3, 8] {
        let steps = script::draw(seed);
        let [one, other] = [(); 2].map(|()| {
            let mut world = World::new(seed);
            let outcome = play(&mut world, &steps);
            let weights: Vec<u32> = world.bench.model().state.weights.iter().map(|weight| weight.to_bits()).collect();
            let view = serde_json::to_string(world.bench.view().as_ref()).unwrap();
            (outcome, weights, view, world.reached)
        });
        assert!(one == other, "seed {seed}");
    }
}
