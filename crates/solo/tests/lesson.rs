//! A lesson with robots, on one thread.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use unmask_client::{Client, Outcome, PHOTOGRAPHS, Robot};
use unmask_data::{encode_png, sample_photographs};
use unmask_lesson::{Place, Scene, plan};
use unmask_model::{Device, block_on};
use unmask_room::{AttackDesk, Moment, Now, RoomConfig};
use unmask_solo::{News, Robots, SoloRoom, Task, attack_desk};
use unmask_wire::{
    Assembler, RelayMessage,
    channel::{Answer, Asker, Request},
    view::{Control, RoomView, SessionView},
};

/// A turn of the host.
const TURN: Duration = Duration::from_millis(20);
/// More turns than a step of the lesson takes.
const TURNS: usize = 20_000;

/// A room, its robots, and what a page has heard.
struct Lesson {
    room: SoloRoom,
    robots: Robots,
    desk: AttackDesk,
    now: Now,
    view: RoomView,
    answers: BTreeMap<u32, Answer>,
    asked: u32,
    /// What the room sent to others than robots.
    others: Vec<(u64, RelayMessage)>,
    closed: Vec<u64>,
}

impl Lesson {
    fn begin(robots: usize) -> Self {
        let now = Now { moment: Moment::START, unix: 1_800_000_000 };
        let mut room = SoloRoom::open(RoomConfig { seed: Some(7), ..RoomConfig::default() }, [5; 32], now).unwrap();
        let photographs = sample_photographs().unwrap();
        let mut robots = Robots::new(&PHOTOGRAPHS[..robots], 3, &photographs, &room.classes(), fresh).unwrap();
        for number in 0..robots.count() {
            room.connect(now, number as u64, true);
            for frame in robots.hello(number).unwrap() {
                room.receive(now, number as u64, &frame);
            }
        }
        let (view, answers, others, closed) = Default::default();
        let mut lesson = Self { room, robots, desk: attack_desk(), now, view, answers, asked: 0, others, closed };
        lesson.turn();
        lesson
    }

    /// Lets the room and its robots do what there is to do; some time passes.
    fn turn(&mut self) {
        self.now.moment = self.now.moment + TURN;
        self.room.work(self.now);
        self.room.step(&|| self.now);
        if let Some(message) = self.desk.step(&|| self.now.moment, &|_| {}) {
            self.room.attacked(self.now, &message);
            self.room.work(self.now);
        }
        self.hear();
        while let Some(Task { robot, plan, pictures, caution }) = self.robots.task() {
            let outcome = block_on(Outcome::of(&plan, pictures, &Device::Cpu, caution));
            for frame in self.robots.answer(robot, &plan, outcome).unwrap() {
                self.room.receive(self.now, robot as u64, &frame);
            }
        }
    }

    fn hear(&mut self) {
        for news in self.room.news(self.now) {
            match news {
                News::Answer(asker, answer) => drop(self.answers.insert(asker.number, answer)),
                News::Attack(order) => self.desk.take(&order).unwrap(),
                News::Frame { socket, frame } if (socket as usize) < self.robots.count() => {
                    for frame in self.robots.receive(socket as usize, &frame).unwrap() {
                        self.room.receive(self.now, socket, &frame);
                    }
                }
                News::Frame { socket, frame } => {
                    let read = Assembler::new(1 << 20).push(&frame).unwrap();
                    self.others.extend(read.map(|(message, _)| (socket, message)));
                }
                News::Closed { socket } => self.closed.push(socket),
                News::State(json) => self.view = serde_json::from_str(&json).unwrap(),
            }
        }
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&RoomView) -> bool) {
        for _ in 0..TURNS {
            if is_so(&self.view) {
                return;
            }
            self.turn();
        }
        panic!("{what} never came: {:?}", self.view);
    }

    fn ask(&mut self, request: Request) -> Answer {
        self.asked += 1;
        self.room.ask(self.now, Asker { page: 1, number: self.asked }, request);
        for _ in 0..TURNS {
            if let Some(answer) = self.answers.remove(&self.asked) {
                return answer;
            }
            self.turn();
        }
        panic!("no answer");
    }

    fn control(&mut self, control: &Control) {
        let answer = self.ask(Request::post("/api/control", serde_json::to_vec(control).unwrap()));
        assert_eq!(answer, Answer { status: 204, body: Vec::new() }, "{control:?}");
    }

    /// Goes where Space leads on the projector's page.
    fn next(&mut self) {
        let place = self.view.lesson.place().next().unwrap();
        self.make_way(place);
        self.until("the next beat", |view| view.lesson.place() == place);
    }

    /// As the projector's page does.
    fn make_way(&mut self, place: Place) {
        let controls = plan(&self.view.situation(), place).changes.into_iter().map(Control::from).collect();
        self.control(&Control::Together { controls });
    }

    fn go_to(&mut self, scene: Scene) {
        let place = Place::start(scene);
        self.make_way(place);
        self.until("the scene", |view| view.lesson.place() == place);
    }
}

/// Other bytes at each call.
fn fresh() -> Result<[u8; 32], String> {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&CALLS.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    Ok(bytes)
}

fn said(answer: &Answer) -> String {
    String::from_utf8(answer.body.clone()).unwrap()
}

#[test]
fn space_leads_to_a_leaked_picture_that_the_page_can_show() {
    let mut lesson = Lesson::begin(2);
    lesson.until("two robots", |view| view.clients.len() == 2);
    assert_eq!(lesson.view.clients[0].nickname, "robot 1");
    let leaked = |view: &RoomView| {
        view.attacks.iter().any(|card| {
            card.ssim.is_some_and(|ssim| ssim > 0.9)
                && card.picture.as_deref().is_some_and(|picture| picture.starts_with("data:image/png;base64,"))
        })
    };
    for _ in 0..8 {
        lesson.next();
        if lesson.view.lesson.place().scene == Scene::Guess {
            break;
        }
    }
    lesson.until("a leaked picture", leaked);
    let original = lesson.view.clients[0].original.as_deref().unwrap();
    assert!(original.starts_with("data:image/png"), "{original}");
}

/// The mask's equations are solved by one who knows it, and a search takes its steps between rounds.
#[test]
fn later_scenes_play_too() {
    let mut lesson = Lesson::begin(3);
    lesson.until("three robots", |view| view.clients.len() == 3);
    for (scene, what) in [(Scene::Mask, "a masked round"), (Scene::Patience, "a search")] {
        lesson.go_to(scene);
        lesson.next();
        lesson.until(what, |view| match scene {
            Scene::Mask => view.attacks.iter().any(|card| card.defence.to_string() == "random-binary:0.5"),
            _ => view.attacks.iter().any(|card| card.search.as_ref().is_some_and(|search| search.iteration > 3)),
        });
    }
}

#[test]
fn requests_are_answered_as_by_a_relay() {
    let mut lesson = Lesson::begin(1);
    let session: SessionView = serde_json::from_slice(&lesson.ask(Request::get("/api/session")).body).unwrap();
    assert_eq!(session.role, Some(unmask_wire::view::Role::Teacher));
    let room = lesson.ask(Request::get("/api/room"));
    assert_eq!(serde_json::from_slice::<RoomView>(&room.body).unwrap().clients.len(), 1);
    for (request, status, words) in [
        (Request::get("/api/session.zip"), 404, "does not have this"),
        (Request::post("/api/control", b"{}".to_vec()), 400, "cannot be read"),
        (Request::post("/api/control", br#"{"do":"new_key"}"#.to_vec()), 400, "has no key"),
        (Request::post("/api/control", br#"{"do":"target","client":99}"#.to_vec()), 400, "99"),
        (Request::post("/api/candidate", b"GIF".to_vec()), 400, "The picture cannot be used"),
    ] {
        let answer = lesson.ask(request.clone());
        assert_eq!(answer.status, status, "{request:?}");
        assert!(said(&answer).contains(words), "{request:?}: {}", said(&answer));
    }
    let (_, picture) = sample_photographs().unwrap().swap_remove(0);
    let file = encode_png(&picture).unwrap();
    assert_eq!(lesson.ask(Request::post("/api/candidate", file)).status, 204);
    lesson
        .until("the candidate", |view| view.membership.as_ref().is_some_and(|card| card.picture.starts_with("data:")));
}

/// More masking leaks less and learns more slowly.
#[test]
fn scene_7_has_the_columns_of_an_earlier_lesson() {
    let mut lesson = Lesson::begin(1);
    lesson.until("the columns", |view| view.columns.is_some());
    let columns = lesson.view.columns.take().unwrap();
    assert!(columns.is_recorded && columns.columns.len() == 4);
    for pair in columns.columns.windows(2) {
        assert!(pair[0].ssim > pair[1].ssim && pair[0].accuracy > pair[1].accuracy, "{:?}", columns.columns);
    }
    assert!(columns.columns.iter().all(|it| it.picture.as_ref().is_some_and(|it| it.starts_with("data:image/png"))));
}

/// Shared pictures are generated beside the room, so their answer comes later.
#[test]
fn slow_work_answers_when_it_is_done() {
    let mut lesson = Lesson::begin(1);
    let control = br#"{"do":"train_on","pictures":"shared"}"#.to_vec();
    lesson.room.ask(lesson.now, Asker { page: 1, number: 77 }, Request::post("/api/control", control));
    lesson.hear();
    assert!(!lesson.answers.contains_key(&77));
    lesson.turn();
    assert_eq!(lesson.answers[&77].status, 204);
    lesson.until("the data set", |view| view.data.as_ref().is_some_and(|data| !data.classes.is_empty()));
}

#[test]
fn strangers_on_a_socket_are_told_why_it_closes() {
    let mut lesson = Lesson::begin(1);
    lesson.room.connect(lesson.now, 40, false);
    lesson.room.receive(lesson.now, 40, b"hello");
    lesson.turn();
    let [(40, RelayMessage::Goodbye { reason })] = lesson.others.as_slice() else { panic!("{:?}", lesson.others) };
    assert!(reason.contains("not an unmask frame"), "{reason}");
    assert_eq!(lesson.closed, [40]);
}

/// A phone's page that was closed says nothing. Robots may be silent.
#[test]
fn a_person_who_is_silent_has_left() {
    let mut lesson = Lesson::begin(1);
    let mut person = Robot::new(Client::new("Ada", "CPU"), false, None, || Ok([4; 32]));
    lesson.room.connect(lesson.now, 41, false);
    for frame in person.hello().unwrap() {
        lesson.room.receive(lesson.now, 41, &frame);
    }
    lesson.until("Ada", |view| view.clients.iter().any(|client| client.nickname == "Ada" && client.state.is_here()));
    lesson.now.moment = lesson.now.moment + Duration::from_secs(200);
    lesson
        .until("her end", |view| view.clients.iter().all(|client| client.nickname != "Ada" || !client.state.is_here()));
    assert!(lesson.closed.contains(&41));
    assert!(lesson.view.clients[0].state.is_here(), "{:?}", lesson.view.clients[0]);
}

/// A fished picture, then the same sum of numbers with noise, which is tested.
#[test]
fn the_scenes_on_a_dishonest_relay_play_one_after_the_other() {
    let mut lesson = Lesson::begin(3);
    lesson.until("three robots", |view| view.clients.len() == 3);
    lesson.go_to(Scene::Dishonest);
    lesson.until("a class", |view| view.label.is_some());
    lesson.next();
    lesson.until("a fished picture", |view| view.sum.as_ref().is_some_and(|sum| sum.score.is_some()));
    lesson.go_to(Scene::Checks);
    lesson.until("doubts", |view| view.noticed.is_some());
    lesson.next();
    lesson.until("the test of the noise", |view| view.sum.as_ref().is_some_and(|sum| sum.tried.is_some()));
}
