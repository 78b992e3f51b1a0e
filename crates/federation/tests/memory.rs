//! Memory use of a room: at most four models (weights, sums and Adam's two moments) and the current update.

use peak_alloc::PeakAlloc;
use unmask_core::{Aggregation, Architecture, ClientId, MaskSeed, ParamLayout, RoundSettings, Rule, VitPreset};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_federation::{Effect, Event, GlobalModel, ReceivedUpdate, Room};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const CLIENTS: u32 = 8;

#[test]
fn adam_rounds_stay_within_four_models_and_one_update() {
    for (aggregation, held) in [(Aggregation::Mean, 0), (Aggregation::Clipped, CLIENTS as usize)] {
        adam_rounds(aggregation, held);
    }
}

/// A clipped mean holds the updates of a first round, up to 512 MiB, until it ends.
fn adam_rounds(aggregation: Aggregation, held: usize) {
    let architecture = Architecture::from(VitPreset::Tiny);
    let layout = architecture.layout();
    let model_bytes = 4 * layout.len();
    // Update counts (2 bytes each, for at most 2^21 of them), one mask in bits, and small objects.
    let slack = 2 * (1 << 21) + layout.len() / 8 + 256 * 1024;
    let settings = RoundSettings::new(
        "random-binary:patch=0.9,0.5".parse().unwrap(),
        Rule::FedSgd,
        1,
        "adam:0.001".parse().unwrap(),
    );

    let before = MEMORY.current_usage();
    let mut room = Room::new(
        GlobalModel { architecture, state: architecture.initial(1) },
        settings.unwrap().with_aggregation(aggregation).unwrap(),
    );
    for client in 0..CLIENTS {
        room.handle(Event::Joined(ClientId(client)));
    }
    let mut effects = room.handle(Event::Start);
    let (mut most, mut updates) = (0, 0);
    for round in 1..=4 {
        // A plan that still exists would keep the old weights alive.
        drop(effects);
        for client in 0..CLIENTS {
            let update = update(&layout, &room, [100 + 16 * round as u8 + client as u8; 32]);
            let update_bytes = 4 * &update.values.len();
            // The update was allocated before the room got it, and counts as the current one.
            MEMORY.reset_peak_usage();
            let effects = room.handle(Event::Update(ReceivedUpdate {
                client: ClientId(client),
                round,
                policy: room.policy(),
                loss: 1.0,
                samples: 1,
                update,
                statistics: Vec::new(),
            }));
            assert!(matches!(effects[0], Effect::Accepted { .. }));
            let peak = MEMORY.peak_usage() - before;
            let allowed = 4 * model_bytes + (1 + held) * update_bytes + slack;
            assert!(peak <= allowed, "round {round}, client {client}: {peak} bytes, {allowed} allowed");
            most = most.max(peak);
            updates += 1;
        }
        effects = room.handle(Event::Begin);
    }
    assert_eq!((updates, room.round()), (4 * CLIENTS, 5));
    println!(
        "peak {:.1} MB: {:.2} models of {:.1} MB",
        most as f64 / 1e6,
        most as f64 / model_bytes as f64,
        model_bytes as f64 / 1e6
    );
}

/// A masked update without spare capacity.
fn update(layout: &ParamLayout, room: &Room, seed: [u8; 32]) -> ProtectedUpdate {
    let plain = PlainUpdate { values: vec![0.01; layout.len()], reference: None };
    let keys = KeyMaterial { seed: MaskSeed(seed), cipher: None };
    let mut update = room.settings().defence().protect(layout, plain, keys).unwrap();
    update.values.shrink_to_fit();
    update
}
