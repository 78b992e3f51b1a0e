//! Every order of events for three clients: a search through all states that the room can reach.
//!
//! Two states count as one if they differ only in the round's number, the weights and which client is which. Clients keep
//! their newest plan, may answer it late, twice or never, leave, come back and ask to return; the teacher starts and
//! pauses; the room's host ends and restores the last saved state. Background tabs and encryption, which would multiply
//! the states, are left to `interleavings`.

use std::collections::{BTreeSet, HashSet, VecDeque};

use unmask_core::Aggregation;

use super::*;

const CLIENTS: [ClientId; 3] = [A, B, C];

#[derive(Debug, Clone, Copy)]
enum Move {
    Join(ClientId),
    Leave(ClientId),
    /// Answers the newest plan, whether or not its round still runs.
    Answer(ClientId),
    Unable(ClientId),
    Return(ClientId),
    Deadline,
    Begin,
    Start,
    Pause,
    /// The host ends, and the room goes on from what it saved.
    Restart,
}

fn moves() -> Vec<Move> {
    let of = |client| {
        [Move::Join(client), Move::Leave(client), Move::Answer(client), Move::Unable(client), Move::Return(client)]
    };
    let room = [Move::Deadline, Move::Begin, Move::Start, Move::Pause, Move::Restart];
    CLIENTS.into_iter().flat_map(of).chain(room).collect()
}

#[derive(Clone)]
struct State {
    room: Room,
    /// Round and policy of each client's newest plan.
    held: [Option<(u32, u32)>; 3],
    /// Whose update the running round has.
    counted: BTreeSet<ClientId>,
}

impl State {
    fn new() -> Self {
        let settings = settings("none", "fedsgd").with_aggregation(Aggregation::Mean).unwrap();
        Self { room: Room::new(model(1), settings), held: [None; 3], counted: BTreeSet::new() }
    }

    /// Everything but the round's number, the weights and which client is which.
    fn key(&self) -> String {
        let now = (self.room.number, self.room.policy);
        let quorum = match &self.room.phase {
            Phase::Training(round) => Some(round.quorum()),
            _ => None,
        };
        let client = |client: ClientId| {
            let held = self.held[client.0 as usize - 1].map(|held| held == now);
            format!("{} {held:?} {}", self.room.members.describe(client), self.counted.contains(&client))
        };
        let mut clients = CLIENTS.map(client);
        clients.sort();
        format!("{:?} {:?} {quorum:?} {clients:?}", self.room.phase(), self.room.run)
    }

    fn event(&self, step: Move) -> Option<Event> {
        let now = (self.room.number, self.room.policy);
        let held = |client: ClientId| self.held[client.0 as usize - 1];
        Some(match step {
            Move::Join(client) => Event::Joined(client),
            Move::Leave(client) => Event::Left(client),
            Move::Answer(client) => {
                let (round, policy) = held(client)?;
                update_event(client, round, policy, dense(&self.room, 0.01))
            }
            Move::Unable(client) => {
                let (round, policy) = held(client)?;
                Event::Unable { client, round, policy, is_locked: false }
            }
            Move::Return(client) => Event::Return(client),
            Move::Deadline => Event::Deadline { round: now.0, policy: now.1 },
            Move::Begin => Event::Begin,
            Move::Start => Event::Start,
            Move::Pause => Event::Pause,
            Move::Restart => return None,
        })
    }

    /// Makes a move, if it is possible; the error says what it breaks.
    fn make(&mut self, step: Move) -> Result<(), String> {
        if matches!(step, Move::Restart) {
            self.room = Room::restore(self.room.saved()).map_err(|error| error.to_string())?;
            self.counted.clear();
            return self.check(step);
        }
        let Some(event) = self.event(step) else { return Ok(()) };
        let was_there = |client| self.room.member(client) != ClientState::Gone;
        let returns = match step {
            Move::Return(client) if was_there(client) => Some(client),
            _ => None,
        };
        for effect in self.room.handle(event) {
            self.hear(&effect)?;
        }
        if let Some(client) = returns
            && self.room.member(client).is_behind()
        {
            return Err(format!("the return of {client} is lost"));
        }
        self.check(step)
    }

    fn hear(&mut self, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::Plan { cohort, round, policy, .. } => {
                if cohort.is_empty() {
                    return Err("a round of nobody".to_owned());
                }
                for client in cohort {
                    self.held[client.0 as usize - 1] = Some((*round, *policy));
                }
                self.counted.clear();
            }
            Effect::Accepted { client, .. } => {
                let is_first = self.counted.insert(*client);
                is_first.then_some(()).ok_or_else(|| format!("the update of {client} counts twice"))?;
            }
            Effect::Closed(summary) => {
                let counted = std::mem::take(&mut self.counted);
                if summary.updates as usize != counted.len() {
                    return Err(format!("{} updates of {} clients", summary.updates, counted.len()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self, step: Move) -> Result<(), String> {
        let states = CLIENTS.map(|client| self.room.member(client));
        match self.room.phase() {
            RoomPhase::Training if !states.contains(&ClientState::Training) => {
                Err(format!("a round runs that nobody trains in, after {step:?}"))
            }
            RoomPhase::Waiting if states.iter().any(|state| state.is_free()) => {
                Err(format!("the room waits, and {states:?} are there, after {step:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether everybody who is there can complete a round: they ask to return, the teacher starts, and they answer.
    fn completes_a_round(mut self) -> Result<bool, String> {
        let there = CLIENTS.into_iter().filter(|client| self.room.member(*client) != ClientState::Gone);
        let there: Vec<ClientId> = there.collect();
        if there.is_empty() {
            return Ok(true);
        }
        for _ in 0..8 {
            let step = match self.room.phase() {
                RoomPhase::Paused => Move::Start,
                RoomPhase::Between => Move::Begin,
                RoomPhase::Sealing => return Ok(false),
                RoomPhase::Waiting => {
                    there.iter().try_for_each(|client| self.make(Move::Return(*client)))?;
                    continue;
                }
                RoomPhase::Training => {
                    let before = self.room.number;
                    for client in &there {
                        if self.room.member(*client) == ClientState::Training && self.room.number == before {
                            self.make(Move::Answer(*client))?;
                        }
                    }
                    if self.room.phase() != RoomPhase::Training {
                        return Ok(true);
                    }
                    Move::Deadline
                }
            };
            self.make(step)?;
        }
        Ok(false)
    }
}

#[test]
fn no_order_of_events_stops_a_room_or_counts_twice() {
    let first = State::new();
    // The moves that lead to each state; the states themselves would fill the memory.
    let (mut seen, mut paths) = (HashSet::from([first.key()]), VecDeque::from([Vec::new()]));
    while let Some(path) = paths.pop_front() {
        let mut state = first.clone();
        path.iter().for_each(|step| assert_eq!(state.make(*step), Ok(())));
        assert_eq!(state.clone().completes_a_round(), Ok(true), "stuck after {path:?}");
        for step in moves() {
            let mut next = state.clone();
            if let Err(broken) = next.make(step) {
                panic!("{broken}: {path:?}, then {step:?}");
            }
            if seen.insert(next.key()) {
                paths.push_back(path.iter().copied().chain([step]).collect());
            }
        }
        assert!(seen.len() < 20_000, "{} states", seen.len());
    }
    assert!(seen.len() > 3000, "{} states", seen.len());
}
