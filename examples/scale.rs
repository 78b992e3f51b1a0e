//! What a federation of many rooms needs in a round: bytes, seconds and memory, and the delay by stragglers.
//!
//!     cargo xtask example scale
//!
//! The size of an update and the times of a gradient and of an addition are measured now. Networks and people are
//! assumed, by the constants below.

use std::{fs, hint::black_box, sync::Arc, time::Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use unmask_core::{Aggregation, Architecture, Defence, MaskSeed, Rule, VitPreset, processor_name};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_federation::{Aggregate, Optimiser, UpdateCounts};
use unmask_model::{Network, device::OpenDevice};
use unmask_wire::{Assembler, ClientMessage, frames};

const ROOMS: [usize; 3] = [10, 1_000, 100_000];
const TABS: usize = 30;
/// The rooms' defence; a room sends plain weights to the server.
const DEFENCE: &str = "random-binary:0.5";

/// Bytes per second that all tabs of a room share.
const WIFI: f64 = 100e6 / 8.0;
/// A school's uplink in bytes per second: the median, and the spread of its logarithm. The downlink is `DOWNLINK` times
/// as fast.
const UPLINK: (f64, f64) = (20e6 / 8.0, 0.7);
const DOWNLINK: f64 = 5.0;
/// Bytes per second of the server, in each direction.
const SERVER: f64 = 10e9 / 8.0;
/// How much longer a tab takes than native code on this processor: the median, and the spread of its logarithm.
const SLOWNESS: (f64, f64) = (3.0, 0.8);
/// Share of the tabs that are closed in a round, and share of the rooms.
const TABS_LOST: f64 = 0.02;
const ROOMS_LOST: f64 = 0.01;
/// The room's own rule: wait for this share, then for twice the median time, at least `LEAST` seconds.
const QUORUM: f64 = 0.8;
const LEAST: f64 = 5.0;

struct Measured {
    name: &'static str,
    /// Bytes of the weights, and of a tab's update.
    plain: f64,
    sent: f64,
    /// Seconds for the gradient of one picture.
    gradient: f64,
    /// Seconds to receive an update from the socket and add it, for plain weights and for a masked update.
    add: f64,
    add_masked: f64,
    /// Seconds for the step that ends a room's round.
    close: f64,
}

fn main() -> anyhow::Result<()> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    println!("Measured on {}, one update at a time:\n", processor_name(&cpuinfo).unwrap_or("an unnamed processor"));
    println!("| model | weights | a tab sends | gradient | add plain | add masked | close |");
    println!("|---|---|---|---|---|---|---|");
    let mut models = Vec::new();
    for preset in [VitPreset::Nano, VitPreset::Small] {
        let measured = measure(preset)?;
        let Measured { name, plain, sent, gradient, add, add_masked, close } = &measured;
        println!(
            "| `{name}` | {} | {} | {} | {} | {} | {} |",
            bytes(*plain),
            bytes(*sent),
            seconds(*gradient),
            seconds(*add),
            seconds(*add_masked),
            seconds(*close)
        );
        models.push(measured);
    }
    println!("\nOne round of the federation, {TABS} tabs a room:\n");
    println!(
        "| rooms | model | a room's Wi-Fi | a room's round | into the server, and held there | added in | half of the replies by | 90 % by | 99 % by |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for rooms in ROOMS {
        for model in &models {
            let Round { in_room, replies } = simulate(model, rooms);
            let at = |share: f64| {
                let place = (share * replies.len() as f64).ceil() as usize;
                seconds(replies[place.clamp(1, replies.len()) - 1])
            };
            println!(
                "| {rooms} | `{}` | {} | {} | {} | {} | {} | {} | {} |",
                model.name,
                bytes(TABS as f64 * (model.plain + model.sent)),
                seconds(in_room),
                bytes(rooms as f64 * model.plain),
                seconds(rooms as f64 * model.add),
                at(0.5),
                at(0.9),
                at(0.99)
            );
        }
    }
    Ok(())
}

fn measure(preset: VitPreset) -> anyhow::Result<Measured> {
    let architecture = Architecture::from(preset);
    let (layout, state) = (Arc::new(architecture.layout()), architecture.initial(1));
    let network = Network::new(architecture, OpenDevice::cpu().device())?;
    let values = 3 * architecture.side() * architecture.side();
    let picture: Vec<f32> = (0..values).map(|at| (at % 251) as f32 / 250.0).collect();
    let gradient =
        fastest(|| network.loss_and_gradient_blocking(&state, &picture, &[0]).map(drop).map_err(Into::into))?;
    let update = |defence: Defence| {
        let plain = PlainUpdate { values: state.weights.clone(), reference: None };
        defence.protect(&layout, plain, KeyMaterial { seed: MaskSeed([1; 32]), cipher: None })
    };
    let add = |defence: Defence| -> anyhow::Result<(f64, f64, Aggregate)> {
        let sent = update(defence)?;
        let header = ClientMessage::Update { round: 1, policy: 1, loss: 1.0, samples: 1, form: sent.form };
        let frames = frames(&header, &sent.values)?;
        let length: usize = frames.iter().map(Vec::len).sum();
        let mut assembler = Assembler::new(length);
        let mut aggregate = Aggregate::new(Arc::clone(&layout), defence, Aggregation::Mean);
        let seconds = fastest(|| {
            for frame in black_box(&frames) {
                if let Some((ClientMessage::Update { form, .. }, values)) = assembler.push(frame)? {
                    let update = ProtectedUpdate { form, values };
                    aggregate.add(&update, 1, None)?;
                    assembler.reuse(update.values);
                }
            }
            Ok(())
        })?;
        Ok((length as f64, seconds, aggregate))
    };
    let (_, plain_seconds, _) = add(Defence::None)?;
    let defence: Defence = DEFENCE.parse()?;
    let (sent, masked_seconds, mut aggregate) = add(defence)?;
    let mut step = Optimiser::new("adam:0.001".parse()?);
    let mut counts = UpdateCounts::new(Arc::clone(&layout), defence);
    let mut weights = state.weights.clone();
    let clock = Instant::now();
    aggregate.close(Rule::FedSgd, &mut step, black_box(&mut weights), &mut counts)?;
    Ok(Measured {
        name: preset.name(),
        plain: 4.0 * state.weights.len() as f64,
        sent,
        gradient,
        add: plain_seconds,
        add_masked: masked_seconds,
        close: clock.elapsed().as_secs_f64(),
    })
}

/// The fastest of five runs: other load on the machine only makes a run slower.
fn fastest(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let clock = Instant::now();
        work()?;
        fastest = fastest.min(clock.elapsed().as_secs_f64());
    }
    Ok(fastest)
}

/// Times in seconds since the server began to send.
struct Round {
    /// The median room's time from its weights to its step.
    in_room: f64,
    /// The time of each reply at the server, in order of arrival. A lost room sends none.
    replies: Vec<f64>,
}

fn simulate(model: &Measured, rooms: usize) -> Round {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut in_rooms = Vec::with_capacity(rooms);
    let mut leaving = Vec::with_capacity(rooms);
    for room in 0..rooms {
        let uplink = log_normal(UPLINK).sample(&mut rng);
        // The server sends to one room after another.
        let begins = (room + 1) as f64 * model.plain / SERVER + model.plain / (DOWNLINK * uplink);
        let in_room = round_of_room(model, &mut rng);
        in_rooms.push(in_room);
        if !rng.random_bool(ROOMS_LOST) {
            leaving.push(begins + in_room + model.plain / uplink);
        }
    }
    in_rooms.sort_by(f64::total_cmp);
    leaving.sort_by(f64::total_cmp);
    Round { in_room: in_rooms[rooms / 2], replies: queue(leaving, model.plain / SERVER) }
}

/// Seconds from the room's weights to its own step.
fn round_of_room(model: &Measured, rng: &mut ChaCha8Rng) -> f64 {
    let slowness = log_normal(SLOWNESS);
    let mut computed = Vec::with_capacity(TABS);
    for tab in 0..TABS {
        let has_weights = (tab + 1) as f64 * model.plain / WIFI;
        if !rng.random_bool(TABS_LOST) {
            computed.push(has_weights + slowness.sample(rng) * model.gradient);
        }
    }
    computed.sort_by(f64::total_cmp);
    let answers = queue(computed, (model.sent / WIFI).max(model.add_masked));
    let enough = (QUORUM * TABS as f64).ceil() as usize;
    // Too few tabs: a real room would wait for its deadline; here it closes with the last answer.
    let last = answers.last().copied().unwrap_or_default();
    let ends = match answers.get(enough - 1) {
        Some(&reached) => last.min(reached.max(LEAST.max(2.0 * answers[answers.len() / 2]))),
        None => last,
    };
    ends + model.close
}

/// When each arrival leaves a queue that handles one at a time, `each` seconds per arrival.
fn queue(arrivals: Vec<f64>, each: f64) -> Vec<f64> {
    let mut free = 0.0_f64;
    let through = |arrival: f64| {
        free = free.max(arrival) + each;
        free
    };
    arrivals.into_iter().map(through).collect()
}

fn log_normal((median, spread): (f64, f64)) -> LogNormal<f64> {
    LogNormal::new(median.ln(), spread).expect("a finite spread")
}

fn bytes(bytes: f64) -> String {
    for (unit, name) in [(1e12, "TB"), (1e9, "GB"), (1e6, "MB")] {
        if bytes >= unit {
            return format!("{:.3} {name}", bytes / unit).replacen(".000", "", 1);
        }
    }
    format!("{bytes:.0} B")
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.1} ms", 1e3 * s),
        s if s < 600.0 => format!("{s:.1} s"),
        s => format!("{:.1} min", s / 60.0),
    }
}
