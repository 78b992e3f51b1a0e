//! Rounds whose updates the relay adds up without seeing one.

use std::{sync::Arc, time::Duration};

use unmask_client::{Action, Caution, Client as Tab, ClientEvent, Doubt, LocalUpdate};
use unmask_core::{Aggregation, Architecture, AttackMethod, ClientId, PictureAddress, Rule, ThreatModel, VitPreset};
use unmask_data::{chw_to_hwc, sample_photographs};
use unmask_lesson::Scene;
use unmask_secagg::{Message, PublicKeys};
use unmask_wire::{
    ClientMessage, ORIGINAL_SIDE, RelayMessage, frames,
    view::{Control, LabelView, RoomView},
};

use crate::{
    attacks::{Running, levels, mean_gradient},
    support::{Class, RATE, Socket, gradient, layout},
};

const PASSPHRASE: &str = "violet otter 1867";

fn class(aggregation: &str) -> Class {
    let aggregation: Aggregation = aggregation.parse().unwrap();
    Class::unattacked(|config| config.aggregation = aggregation)
}

/// A tab without a page: its messages, and the client that answers them.
struct Student {
    tab: Tab,
    socket: Socket,
    number: usize,
    /// What training gives at these weights; by default a gradient of its own.
    train: Option<Training>,
    /// What it has heard, for the test.
    events: Vec<ClientEvent>,
    questions: Vec<String>,
    weights: Vec<f32>,
    /// Round and policy of the last plan.
    task: (u32, u32),
    /// What looks doctored in the last plan.
    doubts: Vec<Doubt>,
    /// Leaves out rounds that look doctored.
    is_careful: bool,
    /// What it adds to the last of its masked values.
    adds: u32,
    /// Leaves when it is asked for this task of the sum, or answers nothing more.
    until: Option<(IsTask, Silence)>,
    is_gone: bool,
}

type IsTask = fn(&RelayMessage) -> bool;
type Training = Box<dyn Fn(&[f32]) -> Vec<f32>>;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Silence {
    Leaves,
    Stalls,
}

impl Student {
    fn join(class: &Class, number: usize, passphrase: Option<&str>) -> Self {
        Self::enter(class, number, passphrase, false)
    }

    fn enter(class: &Class, number: usize, passphrase: Option<&str>, is_robot: bool) -> Self {
        let mut socket = Socket::open(class);
        let mut tab = Tab::new(&format!("student {number}"), "CPU").with_consent(true, true).as_robot(is_robot);
        tab.set_passphrase(passphrase.map(str::to_owned));
        tab.set_caution(Caution::Weights);
        tab.hello([number as u8; 32]).unwrap().iter().for_each(|frame| socket.frame(frame));
        Self {
            tab,
            socket,
            number,
            train: None,
            events: Vec::new(),
            questions: Vec::new(),
            weights: Vec::new(),
            task: (0, 0),
            doubts: Vec::new(),
            is_careful: false,
            adds: 0,
            until: None,
            is_gone: false,
        }
    }

    /// Its number in the room.
    fn id(&self) -> ClientId {
        let welcome = |event: &ClientEvent| match event {
            ClientEvent::Welcome { client, .. } => Some(*client),
            _ => None,
        };
        self.events.iter().find_map(welcome).expect("a welcome")
    }

    /// Answers what has come. Returns whether anything had.
    fn answer(&mut self) -> bool {
        let Some((message, values)) = self.socket.waiting().filter(|_| !self.is_gone) else { return false };
        if let Some((is_it, silence)) = self.until
            && is_it(&message)
        {
            self.is_gone = true;
            if silence == Silence::Leaves {
                self.socket.leave();
            }
            return true;
        }
        for frame in frames(&message, &values).unwrap() {
            match self.tab.receive(&frame).unwrap() {
                Some(Action::Send(mut frames)) => {
                    if is_task(&message, 1)
                        && let Some(value) = frames.last_mut().and_then(|frame| frame.last_chunk_mut())
                    {
                        *value = u32::from_le_bytes(*value).wrapping_add(self.adds).to_le_bytes();
                    }
                    frames.iter().for_each(|frame| self.socket.frame(frame));
                }
                Some(Action::Train(plan)) => {
                    self.weights.clone_from(&plan.state.weights);
                    self.doubts.clone_from(&plan.doubts);
                    self.task = (plan.round, plan.policy);
                    if self.is_careful && !plan.doubts.is_empty() {
                        let refused = self.tab.refuse(&plan, &plan.doubts.clone()).unwrap();
                        refused.iter().for_each(|frame| self.socket.frame(frame));
                        continue;
                    }
                    let trained = self.train.as_ref().map(|train| train(&plan.state.weights));
                    let values = trained.unwrap_or_else(|| gradient(self.number));
                    let trained = LocalUpdate { loss: 1.0, values, statistics: Vec::new(), samples: 1 };
                    let fresh = [100 + self.number as u8; 32];
                    let update = self.tab.update(&plan, trained, fresh).unwrap();
                    update.frames.iter().for_each(|frame| self.socket.frame(frame));
                }
                Some(Action::AskPassphrase { frames, reason, .. }) => {
                    frames.iter().for_each(|frame| self.socket.frame(frame));
                    self.questions.push(reason);
                }
                Some(Action::Report(event)) => self.events.push(event),
                Some(Action::Seal(_)) | None => {}
            }
        }
        true
    }
}

/// Lets the students answer until a round has closed, and one more has begun if rounds go on.
fn play(class: &Class, students: &mut [Student], seconds: u64) {
    let end = class.passed() + Duration::from_secs(seconds);
    while class.passed() < end {
        while students.iter_mut().any(Student::answer) {}
        class.pass(Duration::from_millis(10));
    }
}

/// The mean of these gradients, each shortened to `clip`.
fn mean(numbers: &[usize], clip: f64) -> Vec<f64> {
    let mut mean = vec![0.0; layout().len()];
    for number in numbers {
        let gradient = gradient(*number);
        let norm = gradient.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let factor = (clip / norm).min(1.0) / numbers.len() as f64;
        mean.iter_mut().zip(gradient).for_each(|(mean, value)| *mean += factor * f64::from(value));
    }
    mean
}

/// Checks the step between two plans.
fn assert_stepped(before: &[f32], after: &[f32], mean: &[f64]) {
    assert!(before.len() == mean.len() && after.len() == mean.len());
    for ((before, after), mean) in before.iter().zip(after).zip(mean) {
        let expected = f64::from(*before) - f64::from(RATE) * mean;
        assert!((f64::from(*after) - expected).abs() < 1e-6, "{after} {expected}");
    }
}

/// Plays one round, and returns the weights before and after.
fn one_round(class: &Class, students: &mut [Student], seconds: u64) -> (Vec<f32>, Vec<f32>) {
    class.control(Control::OneRound);
    play(class, students, seconds);
    let before = students.iter().find(|student| !student.weights.is_empty()).unwrap().weights.clone();
    (before, class.weights())
}

fn students(class: &Class, count: usize) -> Vec<Student> {
    students_of(class, count, false)
}

fn students_of(class: &Class, count: usize, are_robots: bool) -> Vec<Student> {
    (1..=count).map(|number| Student::enter(class, number, (!are_robots).then_some(PASSPHRASE), are_robots)).collect()
}

#[test]
fn the_step_is_that_of_clipped_updates_that_nobody_saw() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 4);
    let (before, after) = one_round(&class, &mut students, 1);
    assert_stepped(&before, &after, &mean(&[1, 2, 3, 4], 1.0));
    let room = class.room();
    assert_eq!(room.losses.last().unwrap().updates, 4);
    assert!(room.attacks.is_empty(), "there is no update to attack: {:?}", room.attacks);
}

#[test]
fn weights_are_added_up_as_changes() {
    let class = class("secure-sum:clip=100");
    class.control(Control::Rule { rule: "fedavg:epochs=1,rate=0.1".parse::<Rule>().unwrap() });
    let mut students = students(&class, 3);
    for student in &mut students {
        let change = gradient(student.number);
        let moved =
            move |weights: &[f32]| weights.iter().zip(&change).map(|(weight, change)| weight + change).collect();
        student.train = Some(Box::new(moved));
    }
    let (before, after) = one_round(&class, &mut students, 1);
    let change: Vec<f64> = mean(&[1, 2, 3], 100.0).iter().map(|mean| -mean / f64::from(RATE)).collect();
    assert_stepped(&before, &after, &change);
}

#[test]
fn those_who_stay_remove_the_masks_of_those_who_leave() {
    let asked_for_values: IsTask = |message| is_task(message, 1);
    let asked_to_confirm: IsTask = |message| is_task(message, 2);
    for (when, silence, others) in [
        (asked_for_values, Silence::Leaves, &[1, 2, 3][..]),
        // Its values are in the sum.
        (asked_to_confirm, Silence::Leaves, &[1, 2, 3, 4]),
        (asked_for_values, Silence::Stalls, &[1, 2, 3]),
    ] {
        let class = class("secure-sum:clip=1");
        let mut students = students(&class, 4);
        students[3].until = Some((when, silence));
        let (before, after) = one_round(&class, &mut students, if silence == Silence::Stalls { 130 } else { 1 });
        assert_stepped(&before, &after, &mean(others, 1.0));
    }
}

/// Whether the message is the task with this number of a secure sum.
fn is_task(message: &RelayMessage, number: usize) -> bool {
    use unmask_wire::SumTask::{Confirmations, Deliveries, Roster, Survivors};
    let RelayMessage::Sum { task, .. } = message else { return false };
    let place = match task {
        Roster(_) => 0,
        Deliveries(_) => 1,
        Survivors(_) => 2,
        Confirmations(_) => 3,
    };
    place == number
}

#[test]
fn too_few_make_no_sum_and_the_room_says_so() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 4);
    for student in &mut students[2..] {
        student.until = Some((|message| is_task(message, 1), Silence::Leaves));
    }
    let (before, after) = one_round(&class, &mut students, 1);
    assert_eq!(before, after);
    class.log_line("2 clients stayed in the secure sum, and 3 must");
}

#[test]
fn two_people_hide_nobody() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 2);
    let (before, after) = one_round(&class, &mut students, 1);
    assert_eq!(before, after);
    class.log_line("and 3 must");
}

#[test]
fn a_missing_passphrase_is_asked_for_and_another_one_is_named() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 3);
    students.push(Student::join(&class, 4, None));
    students.push(Student::join(&class, 5, Some("other words")));
    let (before, after) = one_round(&class, &mut students, 2);
    assert_stepped(&before, &after, &mean(&[1, 2, 3], 1.0));
    assert!(
        students[3].questions.iter().any(|question| question.contains("passphrase")),
        "{:?}",
        students[3].questions
    );
    let refused = |event: &ClientEvent| matches!(event, ClientEvent::Refused { reason } if reason.contains("check the passphrase"));
    assert!(students[4].events.iter().any(refused), "{:?}", students[4].events);
}

#[test]
fn an_update_in_plain_is_refused() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 3);
    let mut client = class.client("outdated");
    class.control(Control::OneRound);
    let plan = client.plan();
    client.update(&plan, gradient(9));
    assert!(client.refusal().contains("came in plain"));
    play(&class, &mut students, 1);
    assert_eq!(class.room().losses.last().unwrap().updates, 3);
}

/// Everybody else sees that its keys are not the class's, and the relay hears it from most of them.
#[test]
fn a_client_with_keys_of_its_own_spoils_one_sum() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 4);
    let mut liar = class.client("liar");
    class.control(Control::OneRound);
    let plan = liar.plan();
    // The check is public: the relay sees it, and so may a stranger.
    let check = unmask_defence::ClassKey::derive(PASSPHRASE, &plan.sum.unwrap().salt).unwrap().check();
    let keys = PublicKeys { channel: [1; 32], mask: [101; 32], is_robot: false, tag: [0; 32] };
    let (round, policy) = (plan.round, plan.policy);
    liar.socket.send(&ClientMessage::SumKeys { round, policy, loss: 1.0, samples: 1, keys, check }, &[]);
    play(&class, &mut students, 1);
    class.log_line("4 clients of the secure sum say that its keys or shares are wrong");
    class.log_line("liar is left out; the teacher can take it in again");
    assert_eq!(class.weights(), plan.weights, "the round is void");
    let (before, after) = one_round(&class, &mut students, 1);
    assert_stepped(&before, &after, &mean(&[1, 2, 3, 4], 1.0));
}

/// A message of the wrong phase, for another round or from a stranger harms nobody.
#[test]
fn messages_out_of_turn_change_nothing() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 3);
    let mut stranger = class.client("stranger");
    class.control(Control::OneRound);
    let plan = stranger.plan();
    for (round, policy) in [(plan.round, plan.policy), (plan.round + 1, plan.policy), (0, 0)] {
        for message in
            [Message::Values(Vec::new()), Message::Complaint(stranger.id), Message::Confirmations(Vec::new())]
        {
            stranger.socket.send(&ClientMessage::Sum { round, policy, message }, &gradient(7));
        }
    }
    stranger.socket.send(
        &ClientMessage::Unable { round: plan.round, policy: plan.policy, reason: "no".to_owned(), is_locked: false },
        &[],
    );
    play(&class, &mut students, 1);
    assert_stepped(&plan.weights, &class.weights(), &mean(&[1, 2, 3], 1.0));
}

#[test]
fn what_cannot_be_added_up_is_refused_in_words() {
    let class = class("secure-sum:clip=1");
    let refused = class.refusal_of(&Control::Defence { defence: "frozen-binary:0.5".parse().unwrap() });
    assert!(refused.contains("choose none, fixed-position, random-binary or gaussian"), "{refused}");
    let refused = class.refusal_of(&Control::Aggregation { aggregation: "secure-sum".parse().unwrap() });
    assert!(refused.contains("add a length, such as clip=1"), "{refused}");
    class.control(Control::Aggregation { aggregation: Aggregation::Median });
    class.control(Control::Defence { defence: "frozen-binary:0.5".parse().unwrap() });
    let refused = class.refusal_of(&Control::Aggregation { aggregation: "secure-sum:clip=1".parse().unwrap() });
    assert!(refused.contains("which the defence frozen-binary:0.5 does not send"), "{refused}");
}

/// Each client drops a half by a mask of its own, which nobody learns. Of each parameter the step is the mean over those
/// that kept it, and about one in 16 is kept by none of four.
#[test]
fn masked_updates_are_added_up_and_counted() {
    let class = class("secure-sum:clip=100");
    class.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() });
    let mut students = students(&class, 4);
    for student in &mut students {
        student.train = Some(Box::new(|weights: &[f32]| vec![0.01; weights.len()]));
    }
    let (before, after) = one_round(&class, &mut students, 1);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count() as f64;
    let share = moved / before.len() as f64;
    assert!((share - 15.0 / 16.0).abs() < 0.01, "{share}");
    for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
        assert!((before - after - RATE * 0.01).abs() < 2e-5, "{before} {after}");
    }
    let counted = class.room().update_counts.unwrap();
    let never: f64 = counted.groups.iter().map(|group| group.bins[0].share).sum::<f64>() / counted.groups.len() as f64;
    assert!(counted.rounds == 1 && (never - 1.0 / 16.0).abs() < 0.03, "{counted:?}");
}

/// Nobody sees who sent too much, but the round is void, and the log says what happened.
#[test]
fn a_sum_that_cannot_be_right_is_void_and_says_why() {
    for (defence, adds, said) in [
        ("none", 1 << 31, "somebody sent an update that is not clipped"),
        ("random-binary:0.5", 8, "somebody counted itself more than once"),
    ] {
        let class = class("secure-sum:clip=1");
        class.control(Control::Defence { defence: defence.parse().unwrap() });
        let mut students = students(&class, 4);
        students[2].adds = adds;
        let (before, after) = one_round(&class, &mut students, 1);
        assert_eq!(before, after, "{defence}");
        class.log_line(said);
    }
}

/// The second act: the relay is honest, and the sum is of three pictures.
#[test]
fn a_small_secure_sum_is_taken_apart_by_an_honest_relay() {
    let architecture = Architecture::from(VitPreset::NanoPatch8);
    let class = Class::with_model(Arc::new(Running), |config| {
        config.architecture = architecture;
        config.aggregation = "secure-sum:clip=1".parse().unwrap();
    });
    let mut students = students(&class, 3);
    for (seed, student) in students.iter_mut().enumerate() {
        student.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &levels(seed));
        let train = move |weights: &[f32]| mean_gradient(architecture, weights, &levels(seed), &[3 * seed]);
        student.train = Some(Box::new(train));
    }
    class.control(Control::Lesson { scene: Scene::Sum, beat: 0 });
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    let room = class.room_when("the sum", |room| room.sum.as_ref().is_some_and(|sum| !sum.pictures.is_empty()));
    let sum = room.sum.clone().expect("a sum");
    for (seed, address) in sum.pictures.iter().enumerate() {
        let png = class.picture(address.as_ref().expect("a picture")).expect("a picture");
        let wanted: Vec<u8> = levels(seed).iter().map(|value| (value * 255.0).round() as u8).collect();
        assert!(unmask_data::decode(&png).expect("a PNG").rgb() == wanted, "picture {seed} of {sum:?} is not exact");
    }
}

/// The third and the fourth act: weights that fish for a class read its picture out of the sum, and the tabs notice.
#[test]
fn a_dishonest_relay_reads_one_picture_out_of_a_secure_sum_and_the_tabs_notice() {
    // No attack on batches separates pictures that have as many patches together as this model is wide.
    let architecture = Architecture::from(VitPreset::Nano);
    let class = Class::with_model(Arc::new(Running), |config| {
        config.architecture = architecture;
        config.aggregation = "secure-sum:clip=1".parse().unwrap();
    });
    let mut students = picture_owners(&class, architecture, 5, false);
    class.control(Control::Lesson { scene: Scene::Sum, beat: 0 });
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    assert_eq!(class.room().sum, None, "an honest relay does not get far");
    assert!(students.iter().all(|student| student.doubts.is_empty()));
    let before = class.weights();
    class.control(Control::Fish { class: Some(3) });
    assert!(students.iter_mut().all(|student| student.answer()), "everybody is told");
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    let room = class.room_when("the sum", |room| room.sum.as_ref().is_some_and(|sum| sum.mixture.is_some()));
    let psnr = psnr(&class, room.sum.unwrap().mixture.as_ref(), 3);
    assert!(psnr > 40.0, "student 4's picture has {psnr:.1} dB");
    assert_eq!(class.weights(), before, "the model stays as it was");
    let doubts: Vec<_> = students.iter().map(|student| &student.doubts).collect();
    assert!(doubts.iter().all(|doubts| !doubts.is_empty()), "not everybody noticed: {doubts:?}");
    class.control(Control::Fish { class: None });
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    assert_ne!(class.weights(), before, "training goes on");
}

/// The picture at this address compared with a student's, as PSNR in dB.
fn psnr(class: &Class, address: Option<&PictureAddress>, seed: usize) -> f64 {
    psnr_of(class, address, &levels(seed))
}

fn psnr_of(class: &Class, address: Option<&PictureAddress>, picture: &[f32]) -> f64 {
    let png = class.picture(address.expect("an address")).expect("a picture");
    let found = unmask_data::decode(&png).expect("a PNG");
    let square = |(found, wanted): (&u8, &f32)| (f64::from(*found) / 255.0 - f64::from(*wanted)).powi(2);
    let error = found.rgb().iter().zip(picture).map(square).sum::<f64>() / picture.len() as f64;
    -10.0 * error.log10()
}

/// Students of this model, each with a picture of its own class that it shows.
fn picture_owners(class: &Class, architecture: Architecture, count: usize, are_robots: bool) -> Vec<Student> {
    let mut owners = students_of(class, count, are_robots);
    for (seed, owner) in owners.iter_mut().enumerate() {
        owner.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &levels(seed));
        let train = move |weights: &[f32]| mean_gradient(architecture, weights, &levels(seed), &[seed]);
        owner.train = Some(Box::new(train));
    }
    owners
}

/// The first act. Robots play it where no person is to be hidden.
#[test]
fn the_wall_sees_noise_from_each_client_and_a_mixture_in_the_sum() {
    let architecture = Architecture::from(VitPreset::Nano);
    let class = Class::with_model(Arc::new(Running), |config| {
        config.architecture = architecture;
        config.aggregation = "secure-sum:clip=1".parse().unwrap();
    });
    let mut robots = picture_owners(&class, architecture, 6, true);
    // Nothing is shown of this one, so it has no part in the sum.
    robots[5].socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]);
    // This one agrees, and shows no picture to compare with.
    robots[4].socket.send(&ClientMessage::HideOriginal, &[]);
    class.control(Control::Lesson { scene: Scene::SecureSum, beat: 0 });
    class.control(Control::OneRound);
    play(&class, &mut robots, 1);
    let room = class.room_when("the sum", |room| room.sum.as_ref().is_some_and(|sum| sum.mixture.is_some()));
    let sum = room.sum.as_ref().unwrap();
    let (sender, masked) = sum.masked.as_ref().expect("what one client sent");
    assert_eq!((Some(*sender), sum.clients.len(), sum.pictures.len()), (room.target, 5, 0));
    assert!(robots[5].weights.is_empty(), "a plan for a client that does not agree");
    let seed = robots.iter().position(|robot| robot.id() == *sender).expect("a robot");
    let (of_one, of_all) = (psnr(&class, Some(masked), seed), psnr(&class, sum.mixture.as_ref(), seed));
    assert!(of_one < 16.0 && of_all < 16.0, "masked {of_one:.1} dB, mixture {of_all:.1} dB");
    // Somebody who takes the consent back takes the pictures along.
    robots[seed].socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]);
    class.room_when("no sum", |room| room.sum.is_none());
}

/// One person among robots is hidden by nobody.
#[test]
fn robots_hide_no_person() {
    let class = class("secure-sum:clip=1");
    let mut robots = students_of(&class, 4, true);
    class.control(Control::OneRound);
    play(&class, &mut robots, 1);
    assert_eq!(class.room().losses.last().map(|point| point.updates), Some(4), "robots add up among themselves");
    let before = class.weights();
    robots.push(Student::join(&class, 5, Some(PASSPHRASE)));
    while robots.iter_mut().any(Student::answer) {}
    class.control(Control::OneRound);
    play(&class, &mut robots, 1);
    assert_eq!(class.weights(), before, "a step of a sum in which one could see the person");
    // The key of the robots' own sums is not the class's.
    robots.extend([6, 7].map(|number| Student::join(&class, number, Some(PASSPHRASE))));
    while robots.iter_mut().any(Student::answer) {}
    class.control(Control::OneRound);
    play(&class, &mut robots, 1);
    assert_eq!(class.room().losses.last().map(|point| point.updates), Some(3));
}

/// The third and the fourth act as the lesson shows them: one picture comes out of the sum, careful clients leave the
/// round out and are counted, noise hides the picture.
#[test]
fn the_lesson_shows_a_fished_picture_careful_clients_and_noise() {
    let ((right, trials), epsilon) = tried_noise(Duration::ZERO);
    assert_eq!(trials, 100);
    // sigma S_f is 0.61 and two clipped gradients are at most 1 apart: a guess is right in at most 80 %.
    assert!((51..88).contains(&right) && epsilon < 2.0, "{right}: {epsilon}");
    // A slow device stops after twenty trials and eight seconds.
    assert_eq!(tried_noise(Duration::from_secs(1)).0.1, 28);
}

/// The owner of the picture that doctored weights read out of a sum gets it on its phone, and scores it for the room.
#[test]
fn the_owner_scores_what_came_out_of_the_sum() {
    let architecture = Architecture::from(VitPreset::Nano);
    let class = Class::with_model(Arc::new(Running), |config| config.architecture = architecture);
    let mut students = picture_owners(&class, architecture, 3, false);
    let round = |students: &mut [Student]| {
        class.control(Control::OneRound);
        play(&class, students, 1);
    };
    round(&mut students);
    let room = class.room_when("a class", |room| room.label.is_some());
    let (target, aimed) = (room.target.unwrap(), room.label.as_ref().and_then(LabelView::only_class).unwrap());
    class.control(Control::Aggregation { aggregation: "secure-sum:clip=1".parse().unwrap() });
    class.control(Control::Lesson { scene: Scene::Dishonest, beat: 1 });
    let is_read = |room: &RoomView| room.sum.as_ref().is_some_and(|sum| sum.mixture.is_some());
    let asked = |student: &Student| {
        student.events.iter().filter(|event| matches!(event, ClientEvent::Reconstruction { round: 2.., .. })).count()
    };
    let fish = |students: &mut [Student], fished: u16| {
        class.control(Control::Fish { class: Some(fished) });
        round(students);
        let sum = class.room_when("the sum", is_read).sum.unwrap();
        while students.iter_mut().any(Student::answer) {}
        sum
    };
    // The picture of another class is another's.
    let sum = fish(&mut students, (aimed + 1) % 3);
    assert_eq!((sum.threat, sum.aim), (ThreatModel::Fishing, None));
    assert!(students.iter().all(|student| asked(student) == 0));
    let sum = fish(&mut students, aimed);
    assert_eq!((sum.threat, sum.aim, sum.score), (ThreatModel::Fishing, Some(target), None));
    let score = |ssim| ClientMessage::Score { round: sum.round, attack: AttackMethod::Embedding, psnr: 50.0, ssim };
    for student in &mut students {
        let is_owner = student.id() == target;
        assert_eq!(asked(student), usize::from(is_owner));
        student.socket.send(&score(if is_owner { 1.5 } else { 0.5 }), &[]);
        assert_eq!(class.room().sum.unwrap().score, None, "not a score of the owner's");
    }
    let owner = students.iter_mut().find(|student| student.id() == target).unwrap();
    owner.socket.send(&score(0.75), &[]);
    class.room_when("the score", |room| room.sum.as_ref().is_some_and(|sum| sum.score == Some((50.0, 0.75))));
}

/// Where several pictures have the class, cuts of a feature leave one of them, round by round. Nobody gets other people's
/// pictures, and a withdrawal ends the cut that was made from its picture.
#[test]
fn one_of_several_pictures_of_a_class_comes_out_of_the_sum() {
    let architecture = Architecture::from(VitPreset::Nano);
    let class = Class::with_model(Arc::new(Running), |config| config.architecture = architecture);
    let mut students = owners_of_one_class(&class, architecture);
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    let room = class.room_when("a class", |room| room.label.is_some());
    assert_eq!(room.label.as_ref().and_then(LabelView::only_class), Some(1), "that of the client under attack");
    class.control(Control::Aggregation { aggregation: "secure-sum:clip=1".parse().unwrap() });
    class.control(Control::Lesson { scene: Scene::Dishonest, beat: 1 });
    class.control(Control::Fish { class: Some(1) });
    class.control(Control::OneRound);
    let is_alone = |room: &RoomView| {
        let sum = room.sum.as_ref().filter(|sum| sum.threat == ThreatModel::FeatureFishing);
        sum.and_then(|sum| sum.mixture.as_ref()).is_some_and(|mixture| {
            photographs()[..4].iter().any(|photograph| psnr_of(&class, Some(mixture), photograph) > 28.0)
        })
    };
    let before = class.weights();
    let found = (0..10).any(|_| {
        play(&class, &mut students, 1);
        is_alone(&class.room())
    });
    assert!(found, "{:?}", class.room().log);
    let rounds = class.room().round - 1;
    assert!(rounds > 1, "{rounds} rounds for four pictures");
    assert_eq!(class.weights(), before, "the model stays as it was");
    let cuts = || class.room().log.iter().filter(|line| line.text.contains("tries another cut")).count();
    let before = cuts();
    assert!(before > 0);
    let is_asked = |event: &ClientEvent| matches!(event, ClientEvent::Reconstruction { round: 2.., .. });
    assert!(students.iter().all(|student| !student.events.iter().any(is_asked)));
    students[0].socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]);
    class.pass(Duration::from_secs(1));
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    assert!(cuts() > before, "the cut outlasts the withdrawal");
}

/// In a room that runs on, a round has begun with the last weights before the next cut is known.
#[test]
fn a_cut_is_found_while_rounds_run_on() {
    let architecture = Architecture::from(VitPreset::Nano);
    let class = Class::with_model(Arc::new(Running), |config| {
        config.architecture = architecture;
        config.aggregation = "secure-sum:clip=1".parse().unwrap();
    });
    let mut students = owners_of_one_class(&class, architecture);
    class.control(Control::Lesson { scene: Scene::Dishonest, beat: 1 });
    class.control(Control::Fish { class: Some(1) });
    class.control(Control::Start);
    let is_alone = |room: &RoomView| {
        let sum = room.sum.as_ref().filter(|sum| sum.threat == ThreatModel::FeatureFishing);
        sum.and_then(|sum| sum.mixture.as_ref()).is_some_and(|mixture| {
            photographs()[..4].iter().any(|photograph| psnr_of(&class, Some(mixture), photograph) > 28.0)
        })
    };
    let found = (0..20).any(|_| {
        play(&class, &mut students, 1);
        is_alone(&class.room())
    });
    assert!(found, "{:?}", class.room().log);
    // The noise is tested with pictures that the cut must not silence.
    class.control(Control::Lesson { scene: Scene::Checks, beat: 1 });
    play(&class, &mut students, 1);
    let plans = students.iter().all(|student| student.weights.iter().all(|weight| weight.abs() < 9e5));
    assert!(plans, "the cut is still in force");
}

/// The sample photographs at the model's size.
fn photographs() -> Vec<Vec<f32>> {
    sample_photographs().unwrap().iter().map(|(_, picture)| chw_to_hwc(&picture.for_model(32), 32, 32)).collect()
}

/// Five students with photographs, four of them of class 1. The relay tells pictures apart by their class tokens, which
/// waves leave alike.
fn owners_of_one_class(class: &Class, architecture: Architecture) -> Vec<Student> {
    let mut students = picture_owners(class, architecture, 5, false);
    for (place, (student, photograph)) in students.iter_mut().zip(photographs()).enumerate() {
        let label = usize::from(place != 4);
        student.train = Some(Box::new(move |weights| mean_gradient(architecture, weights, &photograph, &[label])));
    }
    students
}

/// Plays the acts, with trials that find the clock `look` later each time: the right ones, all, and the bound of epsilon.
fn tried_noise(look: Duration) -> ((u32, u32), f64) {
    let architecture = Architecture::from(VitPreset::Nano);
    let class = Class::with_model(Arc::new(Running), |config| {
        config.architecture = architecture;
        config.aggregation = "secure-sum:clip=1".parse().unwrap();
    });
    let mut students = picture_owners(&class, architecture, 5, false);
    let round = |class: &Class, students: &mut [Student]| {
        class.control(Control::OneRound);
        play(class, students, 1);
    };
    class.control(Control::Lesson { scene: Scene::Dishonest, beat: 1 });
    round(&class, &mut students);
    assert_eq!(class.room().sum, None, "the weights are honest");
    class.control(Control::Fish { class: Some(2) });
    round(&class, &mut students);
    let mixture = |room: &RoomView| room.sum.as_ref().and_then(|sum| sum.mixture.clone());
    let room = class.room_when("the sum", |room| mixture(room).is_some());
    let fished = psnr(&class, mixture(&room).as_ref(), 2);
    assert!(fished > 40.0, "{fished:.1} dB");
    assert_eq!(room.noticed, None, "nobody was asked to look");

    class.control(Control::Lesson { scene: Scene::Checks, beat: 0 });
    class.control(Control::Careful { on: true });
    // A robot without the passphrase cannot take part, whatever the weights are.
    students.push(Student::enter(&class, 6, None, true));
    for student in &mut students {
        student.is_careful = true;
    }
    round(&class, &mut students);
    let room = class.room();
    assert_eq!((room.noticed, room.sum.as_ref()), (Some((5, 5)), None));

    class.control(Control::Careful { on: false });
    class.control(Control::Aggregation { aggregation: Aggregation::Clipped });
    class.control(Control::Defence { defence: "gaussian".parse().unwrap() });
    class.control(Control::Aggregation { aggregation: "secure-sum".parse().unwrap() });
    class.control(Control::Lesson { scene: Scene::Checks, beat: 1 });
    for student in &mut students {
        student.is_careful = false;
    }
    class.let_looks_take(look);
    round(&class, &mut students);
    let room = class.room_when("the sum with noise", |room| mixture(room).is_some());
    let noisy = psnr(&class, mixture(&room).as_ref(), 2);
    assert!(noisy < 15.0, "{noisy:.1} dB");
    let tried = |room: &RoomView| room.sum.as_ref().and_then(|sum| sum.tried.zip(sum.least_epsilon));
    let room = class.room_when("the trials of the noise", |room| tried(room).is_some());
    tried(&room).unwrap()
}

/// Neither a tab that was loaded again nor one on another network goes on with a sum: the others do.
#[test]
fn a_new_socket_is_out_of_the_running_sum() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 4);
    students[3].until = Some((|message| is_task(message, 0), Silence::Stalls));
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    let ticket = students[3].tab.ticket();
    let mut again = crate::support::Client::join(&class, "student 4", ticket);
    play(&class, &mut students, 1);
    assert_eq!(class.room().losses.last().unwrap().updates, 3);
    class.control(Control::OneRound);
    let plan = again.plan();
    assert_eq!(plan.weights, class.weights(), "it is asked for the next round");
}

/// Somebody who deals bad shares to a few makes them leave. The log says who accuses whom.
#[test]
fn a_few_who_complain_are_named_beside_the_accused() {
    let class = class("secure-sum:clip=1");
    let mut students = students(&class, 4);
    students[3].until = Some((|message| is_task(message, 0), Silence::Stalls));
    class.control(Control::OneRound);
    play(&class, &mut students, 1);
    let (round, policy) = students[3].task;
    let about = students[0].id();
    students[3].socket.send(&ClientMessage::Sum { round, policy, message: Message::Complaint(about) }, &[]);
    play(&class, &mut students, 1);
    class.log_line("student 4 left the secure sum because of student 1");
    assert_eq!(class.room().losses.last().unwrap().updates, 3);
}
