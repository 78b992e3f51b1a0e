//! What the room shows of the teacher's choices and of its clients.

use crate::support::{Class, gradient, view};
use unmask_core::{Aggregation, OptimiserKind, Rule};
use unmask_defence::ProtectedUpdate;
use unmask_wire::{
    ClientMessage, ORIGINAL_SIDE, ORIGINAL_VALUES,
    view::{Control, NextView},
};

#[test]
fn what_changes_with_the_next_round_is_shown_until_then() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    assert_eq!(class.room().next, None);
    let (rule, optimiser) = (Rule::FED_AVG, OptimiserKind::Sgd { rate: 0.25 });
    class.control(Control::Rule { rule });
    assert_eq!(class.room().next, Some(NextView { rule: Some(rule), ..NextView::default() }));
    class.control(Control::Rule { rule: Rule::FedSgd });
    class.control(Control::Optimiser { optimiser });
    assert_eq!(class.room().next, Some(NextView { optimiser: Some(optimiser), ..NextView::default() }));
    class.control(Control::AprilBlock { on: true });
    let architecture = class.room().next.and_then(|next| next.architecture).expect("another model");
    assert!(architecture.april_block());
    class.control(Control::AprilBlock { on: false });
    class.control(Control::OneRound);
    ada.plan();
    assert_eq!(class.room().next, None);
}

#[test]
fn a_client_is_shown_with_what_it_sent() {
    let class = Class::unattacked(|_| {});
    let mut ada = class.client("Ada");
    class.control(Control::Start);
    for round in 1..=2 {
        let plan = ada.plan();
        ada.send_update(&plan, 1.5, ProtectedUpdate::dense(vec![1.0]));
        let room = class.room_when("a refusal", |room| view(room, "Ada").refusal.is_some());
        assert_eq!(view(&room, "Ada").updates, round - 1);
        let plan = ada.plan();
        ada.send_update(&plan, 1.5, ProtectedUpdate::dense(gradient(1)));
        let room = class.room_when("an update", |room| view(room, "Ada").updates == round);
        let shown = view(&room, "Ada");
        assert_eq!((shown.loss, &shown.refusal, shown.may_show), (Some(1.5), &None, true));
        assert!(shown.bytes_sent > 4 * gradient(1).len() as u64 * u64::from(round), "{}", shown.bytes_sent);
    }
}

#[test]
fn without_the_means_to_measure_the_room_says_so() {
    let remark = Class::start().room().evaluation.and_then(|evaluation| evaluation.remark).unwrap_or_default();
    assert!(remark.contains("without the means"), "{remark}");
}

#[test]
fn who_points_against_the_others_is_counted_in_the_log() {
    let class = Class::unattacked(|config| config.aggregation = Aggregation::Aligned);
    let mut clients: Vec<_> = (0..5).map(|number| class.client(&format!("Ada{number}"))).collect();
    class.control(Control::OneRound);
    for (number, client) in clients.iter_mut().enumerate() {
        let plan = client.plan();
        let sign = if number == 0 { -1.0 } else { 1.0 };
        let values = gradient(1).into_iter().map(|value| sign * value).collect();
        client.send_update(&plan, 1.0, ProtectedUpdate::dense(values));
    }
    class.log_line("Round 1: 1 update pointed against the others and was left out.");
}

#[test]
fn the_update_is_asked_about_a_picture_that_its_client_shows() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    let bob = class.client("Bob");
    ada.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &[0.5; ORIGINAL_VALUES]);
    let reason = class.refusal_of(&Control::TestPicture { client: bob.id });
    assert!(reason.contains("Bob") && reason.contains("shows the class no picture"), "{reason}");
    assert_eq!(class.room().membership, None);
    class.control(Control::TestPicture { client: ada.id });
    assert_eq!(class.room().membership.map(|card| card.owner), Some(Some(ada.id)));
    ada.socket.send(&ClientMessage::HideOriginal, &[]);
    assert_eq!(class.room().membership, None);
}
