//! Lessons, end to end: a real relay, real tabs and a headless client.

mod access;
mod attackers;
mod classroom;
mod data;
mod defences;
mod elsewhere;
mod federation;
mod first_paint;
mod languages;
mod networks;
mod palette;
mod phones;
mod pictures;
mod quirks;
mod replay;
#[path = "../crates/xtask/src/site.rs"]
mod site;
mod solo;
mod stage;
mod support;
mod volunteers;

use serde_json::Value;
use tokio::sync::Mutex;

/// Several browsers in parallel on two cores would only slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const DESKTOP: (u32, u32) = (1440, 1000);
const PHONE: (u32, u32) = (390, 844);
/// The narrowest view that pages must fit, as WCAG 2.2 demands it.
const NARROW: (u32, u32) = (320, 700);

fn ssim(attack: &Value) -> f64 {
    attack["ssim"].as_f64().unwrap_or_else(|| panic!("no SSIM in {attack}"))
}
