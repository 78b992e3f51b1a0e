//! The formats of a saved lesson that this version reads, and the steps from one to the next.

use std::{borrow::Cow, net::IpAddr};

use anyhow::{Context, ensure};
use unmask_federation::RoomState;

use crate::{initialiser::InitialiserRecord, lesson::LessonHead, peer::DeviceId, roster::RosterRecord};

/// The format that this version writes. It changes with the encoding of anything in the journal. A change needs a step
/// from the format before, if nothing is lost, and a lesson in `crates/journal/tests/formats`.
pub const FORMAT: u32 = 12;

/// The oldest format that this version reads.
pub const OLDEST_FORMAT: u32 = FORMAT - STEPS.len() as u32;

type Step = fn(&[u8]) -> anyhow::Result<Vec<u8>>;

/// One after the other; the last one leads to [`FORMAT`]. A step must go on reading what it was written for: if a type
/// that it names changes, the step keeps the type of before.
const STEPS: [Step; 4] = [from_8, from_9, from_10, from_11];

/// Brings what the room saved in an earlier format to the present one.
///
/// # Errors
/// If this version does not read the format, or if the bytes do not have it.
pub(crate) fn upgraded(format: u32, header: &[u8]) -> anyhow::Result<Cow<'_, [u8]>> {
    ensure!((OLDEST_FORMAT..=FORMAT).contains(&format), "format {format} is not one of {OLDEST_FORMAT} to {FORMAT}");
    let mut header = Cow::Borrowed(header);
    for (number, step) in (OLDEST_FORMAT..).zip(STEPS).skip_while(|(number, _)| *number < format) {
        header = Cow::Owned(step(&header).with_context(|| format!("its lesson is not in format {number}"))?);
    }
    Ok(header)
}

/// Format 9 keeps the browsers that are left out, after the bans. Nothing was kept of them before.
fn from_8(header: &[u8]) -> anyhow::Result<Vec<u8>> {
    type Before = (LessonHead, RoomState, InitialiserRecord, RosterRecord);
    type Ban = (Option<IpAddr>, Option<DeviceId>);
    type Door = (bool, Vec<Ban>);

    let (_, rest) = postcard::take_from_bytes::<(Before, Door)>(header)?;
    let before = &header[..header.len() - rest.len()];
    let left_out = postcard::to_stdvec(&Vec::<DeviceId>::new())?;
    Ok([before, &left_out, rest].concat())
}

/// Format 10 keeps the number of the students' keys, and whether the teacher approves newcomers, at the end of the door.
fn from_9(header: &[u8]) -> anyhow::Result<Vec<u8>> {
    type Before = (LessonHead, RoomState, InitialiserRecord, RosterRecord);
    type Ban = (Option<IpAddr>, Option<DeviceId>);
    type Door = (bool, Vec<Ban>, Vec<DeviceId>, u32);

    let (_, rest) = postcard::take_from_bytes::<(Before, Door)>(header)?;
    let before = &header[..header.len() - rest.len()];
    Ok([before, &postcard::to_stdvec(&(0_u32, false))?, rest].concat())
}

/// Format 11 tells a door that nobody decided to leave open from one that the teacher opened. Format 10 does not: an open
/// one counts as undecided, so that `--approve-first` closes it.
fn from_10(header: &[u8]) -> anyhow::Result<Vec<u8>> {
    type Before = (LessonHead, RoomState, InitialiserRecord, RosterRecord);
    type Ban = (Option<IpAddr>, Option<DeviceId>);
    type Door = (bool, Vec<Ban>, Vec<DeviceId>, u32, u32);

    let (_, rest) = postcard::take_from_bytes::<(Before, Door)>(header)?;
    let before = &header[..header.len() - rest.len()];
    let (approves, rest) = postcard::take_from_bytes::<bool>(rest)?;
    Ok([before, &postcard::to_stdvec(&approves.then_some(true))?, rest].concat())
}

/// Format 12 keeps at its end whether clients are asked to check plans carefully. Nothing was kept of that before.
fn from_11(header: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok([header, &postcard::to_stdvec(&false)?].concat())
}

#[cfg(test)]
mod tests {
    use unmask_core::RoundSettings;
    use unmask_federation::{GlobalModel, Room};

    use super::*;
    use crate::{config::RoomConfig, initialiser::Initialiser, lesson::Beginning};

    /// What a restart must not lose is that newcomers wait.
    #[test]
    fn an_approving_door_stays_one_and_an_open_one_is_undecided() {
        let config = RoomConfig::default();
        let RoomConfig { architecture, defence, rule, batch, optimiser, initial_weights, .. } = config;
        let head = LessonHead { id: [7; 16], began: 1, beginning: Beginning::of(&config) };
        let model = GlobalModel { architecture, state: architecture.initial(1) };
        let room = Room::new(model, RoundSettings::new(defence, rule, batch, optimiser).unwrap());
        let initialiser = Initialiser::new(initial_weights, None).record();
        let bans = vec![(None::<IpAddr>, Some(DeviceId::of([1; 16])))];
        let door = (false, bans, vec![DeviceId::of([2; 16])], 3_u32, 4_u32);
        let before = postcard::to_stdvec(&(head, room.state(), initialiser, RosterRecord::default(), door)).unwrap();
        for (approves, choice) in [(false, None), (true, Some(true))] {
            let [old, new] =
                [postcard::to_stdvec(&approves).unwrap(), postcard::to_stdvec::<Option<bool>>(&choice).unwrap()];
            let header = [&before[..], &old, b"the rest"].concat();
            assert_eq!(from_10(&header).unwrap(), [&before[..], &new, b"the rest"].concat());
        }
    }

    #[test]
    fn formats_without_a_step_are_refused_by_number() {
        for format in [0, OLDEST_FORMAT - 1, FORMAT + 1] {
            let error = upgraded(format, b"").unwrap_err().to_string();
            assert_eq!(error, format!("format {format} is not one of 8 to 12"));
        }
        assert_eq!(upgraded(FORMAT, b"as it is").unwrap().as_ref(), b"as it is");
        let error = upgraded(8, b"no lesson").unwrap_err().to_string();
        assert_eq!(error, "its lesson is not in format 8");
    }
}
