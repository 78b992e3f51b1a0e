//! Scripts: what happens to a room, step by step.

use std::time::Duration;

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use unmask_core::{Rule, TrainOn};
use unmask_lesson::{Poll, Question, Scene};
use unmask_room::bench::End;
use unmask_wire::view::Control;

/// Clients of a script.
pub const PEOPLE: usize = 30;
/// Steps of a script, at least and at most.
const STEPS: (usize, usize) = (80, 320);

/// How a client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Honest,
    /// Rarely gets round to answering.
    Slow,
    /// Reads its plans and never answers.
    Silent,
    /// Says after each round that it could not take part.
    Staller,
    /// Sends values that are no numbers, enormous, or of the wrong number.
    Garbage,
    /// Answers each plan twice.
    Double,
    /// Answers with an earlier round or policy.
    Stale,
    /// Sends everything that is no update, at random.
    Chatty,
}

const KINDS: [Kind; 8] =
    [Kind::Honest, Kind::Slow, Kind::Silent, Kind::Staller, Kind::Garbage, Kind::Double, Kind::Stale, Kind::Chatty];

/// What the network does to a message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    Lost,
    Repeated,
    /// The one after it arrives first.
    Overtaken,
    /// The connection breaks in the middle of it.
    Cut,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// Opens a socket and says hello, with the ticket of last time.
    Join {
        who: usize,
        kind: Kind,
        may_show: bool,
        may_lend: bool,
    },
    /// Reads what the room has sent, and answers as its kind does; `seed` decides what is open.
    Act {
        who: usize,
        seed: u64,
    },
    Deliver {
        who: usize,
        fate: Fate,
    },
    Close {
        who: usize,
    },
    /// Has its data deleted.
    Forget {
        who: usize,
    },
    /// Shows a picture of its own to the class.
    Show {
        who: usize,
    },
    /// Guesses whose update it was lent, and may look at the gaps.
    Guess {
        who: usize,
        answer: u16,
        knows_gaps: bool,
    },
    Teacher(Order),
    Pass(Duration),
    /// One piece of slow work.
    Work,
    /// One worker of the attacks.
    Attack {
        worker: usize,
    },
    /// The disk says what became of the writes.
    Write,
    FillDisk(bool),
    /// The thread that writes the journal ends.
    StopWriting,
    /// People change the time of day.
    SetClock(u64),
    /// The host ends and starts again.
    Restart(End),
}

/// What the teacher does. Clients are named by who plays them.
#[derive(Debug, Clone)]
pub enum Order {
    Plain(Control),
    Target(usize),
    Readmit(usize),
    Rename(usize),
    Remove(usize),
    Ban(usize),
    TestPicture(usize),
    /// Asks whose update it is, of these people's.
    AskWhoseUpdate(Vec<usize>),
}

/// Draws a script.
pub fn draw(seed: u64) -> Vec<Step> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut steps = Vec::new();
    let people = rng.random_range(2..=PEOPLE);
    // In some rooms, most are honest.
    let hostile = rng.random_range(0.0..0.6);
    for who in 0..people {
        let kind = if rng.random_bool(hostile) { *KINDS.choose(&mut rng).expect("a kind") } else { Kind::Honest };
        steps.push(join(&mut rng, who, kind));
    }
    if has_passphrase(seed) {
        steps.push(Step::Teacher(defence("encrypted")));
    }
    steps.push(Step::Teacher(Order::Plain(Control::Start)));
    let count = rng.random_range(STEPS.0..=STEPS.1);
    // One room in four plays the game about each other's updates.
    let game_at = rng.random_bool(0.25).then(|| rng.random_range(0..count));
    for number in 0..count {
        if game_at == Some(number) {
            play(&mut rng, people, &mut steps);
        }
        let who = rng.random_range(0..people);
        // A client that acts usually has its answer delivered at once, so that rounds get anywhere.
        let step = match rng.random_range(0..100) {
            0..36 => {
                steps.push(Step::Act { who, seed: rng.random() });
                Step::Deliver { who, fate: fate(&mut rng) }
            }
            36..44 => Step::Deliver { who, fate: fate(&mut rng) },
            44..46 => Step::Close { who },
            46..52 => {
                let kind = *KINDS.choose(&mut rng).expect("a kind");
                join(&mut rng, who, kind)
            }
            52 => Step::Forget { who },
            53..63 => Step::Teacher(order(&mut rng, who)),
            63..77 => {
                Step::Pass(Duration::from_millis(*[1, 50, 400, 1500, 10_000, 61_000].choose(&mut rng).expect("a time")))
            }
            77..82 => Step::Work,
            82..90 => Step::Attack { worker: rng.random_range(0..4) },
            90..95 => Step::Write,
            95 if rng.random_bool(0.1) => Step::StopWriting,
            95 => Step::FillDisk(rng.random_bool(0.3)),
            96 => Step::SetClock(rng.random_range(0..4_000_000_000)),
            97 => Step::Restart(*[End::Orderly, End::Killed, End::PowerCut].choose(&mut rng).expect("an end")),
            _ => Step::Pass(Duration::from_millis(1100)),
        };
        steps.push(step);
    }
    steps
}

/// Whether the class has a passphrase.
pub fn has_passphrase(seed: u64) -> bool {
    seed % 8 == 1
}

fn defence(defence: &str) -> Order {
    Order::Plain(Control::Defence { defence: defence.parse().expect("it is written correctly") })
}

/// The game of the fifth scene, as the projector leads it, while people come and go.
fn play(rng: &mut ChaCha8Rng, people: usize, steps: &mut Vec<Step>) {
    let lenders: Vec<usize> = (0..people).filter(|_| rng.random_bool(0.6)).take(4).collect();
    let at = |beat| Order::Plain(Control::Lesson { scene: Scene::Attackers, beat });
    let mut game = Vec::new();
    game.extend((0..people).map(|who| Step::Join { who, kind: Kind::Honest, may_show: true, may_lend: true }));
    game.extend(lenders.iter().map(|who| Step::Show { who: *who }));
    let before =
        [Control::Pause, Control::Rule { rule: Rule::FedSgd }, Control::TrainOn { pictures: TrainOn::Private }];
    game.extend(before.map(|control| Step::Teacher(Order::Plain(control))));
    // The round before ends.
    game.push(Step::Pass(Duration::from_secs(61)));
    let begin = [defence("random-binary:0.5"), at(2), Order::AskWhoseUpdate(lenders), Order::Plain(Control::OneRound)];
    game.extend(begin.map(Step::Teacher));
    for who in 0..people {
        game.extend([Step::Act { who, seed: rng.random() }, Step::Deliver { who, fate: Fate::Arrives }]);
    }
    for _ in 0..people {
        let (who, answer) = (rng.random_range(0..people), rng.random_range(0..8));
        game.push(Step::Guess { who, answer, knows_gaps: rng.random() });
    }
    game.extend([at(3), Order::Plain(Control::ClosePoll)].map(Step::Teacher));
    for step in game {
        steps.push(step);
        if rng.random_bool(0.03) {
            let who = rng.random_range(0..people);
            steps.push(match rng.random_range(0..6) {
                0 => Step::Close { who },
                1 => Step::Forget { who },
                2 => Step::Restart(End::Killed),
                3 => Step::Teacher(order(rng, who)),
                4 => join(rng, who, Kind::Chatty),
                _ => Step::Pass(Duration::from_secs(61)),
            });
        }
    }
}

fn join(rng: &mut ChaCha8Rng, who: usize, kind: Kind) -> Step {
    Step::Join { who, kind, may_show: rng.random_bool(0.7), may_lend: rng.random_bool(0.4) }
}

fn fate(rng: &mut ChaCha8Rng) -> Fate {
    match rng.random_range(0..100) {
        0..84 => Fate::Arrives,
        84..89 => Fate::Lost,
        89..93 => Fate::Repeated,
        93..97 => Fate::Overtaken,
        _ => Fate::Cut,
    }
}

fn order(rng: &mut ChaCha8Rng, who: usize) -> Order {
    const DEFENCES: [&str; 6] =
        ["none", "random-binary:0.5", "random-binary:0.9", "fixed-position", "frozen-binary:0.3", "encrypted"];
    let plain = match rng.random_range(0..29) {
        0 | 1 => Control::Start,
        2 => Control::Pause,
        3 => Control::OneRound,
        4 => Control::Reset,
        5..8 => Control::Defence { defence: pick(rng, &DEFENCES) },
        8 => Control::Rule { rule: pick(rng, &["fedsgd", "fedavg:epochs=2,rate=0.1"]) },
        9 => Control::Optimiser { optimiser: pick(rng, &["sgd:0.1", "adam:0.001"]) },
        10 => Control::Batch { samples: rng.random_range(0..4) },
        11 => Control::Lock { on: rng.random() },
        12 => match rng.random_range(0..5) {
            0 => Control::ApproveFirst { on: true },
            1 => Control::ApproveFirst { on: false },
            2 => Control::Approve { client: None },
            3 => Control::ShowPicture { client: None },
            _ => Control::LiftBans,
        },
        13 => Control::GatherAnew,
        14 => Control::AttackBudget { seconds: *[0.0, 1.0, 5.0, -1.0].choose(rng).expect("a budget") },
        15 => Control::AprilBlock { on: rng.random() },
        16..19 => {
            let scene = *Scene::ALL.choose(rng).expect("a scene");
            Control::Lesson { scene, beat: rng.random_range(0..4) }
        }
        19 => Control::AskPoll {
            poll: Poll {
                question: *[Question::Numbers, Question::Half, Question::Rate, Question::Whose]
                    .choose(rng)
                    .expect("one"),
                suspects: Vec::new(),
                correct: None,
            },
        },
        20 => Control::ClosePoll,
        21 => return Order::Target(who),
        22 => return Order::Rename(who),
        23 if rng.random() => return Order::Remove(who),
        23 => return Order::Ban(who),
        24 => return Order::Readmit(who),
        26 => Control::TrainOn { pictures: if rng.random() { TrainOn::Shared } else { TrainOn::Private } },
        27 => Control::Partition { partition: pick(rng, &["iid", "dirichlet:0.3"]) },
        25 => Control::Search { on: rng.random() },
        28 if rng.random() => return Order::TestPicture(who),
        _ => Control::Together { controls: (0..rng.random_range(1..5)).filter_map(|_| plain(rng, who)).collect() },
    };
    Order::Plain(plain)
}

/// An order that names nobody, if the next one is such an order.
fn plain(rng: &mut ChaCha8Rng, who: usize) -> Option<Control> {
    match order(rng, who) {
        Order::Plain(control) => Some(control),
        _ => None,
    }
}

fn pick<T: std::str::FromStr<Err: std::fmt::Debug>>(rng: &mut ChaCha8Rng, all: &[&str]) -> T {
    all.choose(rng).expect("one").parse().expect("it is written correctly")
}
