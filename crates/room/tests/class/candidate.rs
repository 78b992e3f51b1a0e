//! Membership of the teacher's picture in the client's update.

use std::sync::Arc;

use crate::support::{
    Class, Client, gradient, layout,
    private::{config, picture, revealing_gradient},
};
use unmask_attack::{AttackError, Searches, WholeUpdate, class_token_gradient};
use unmask_core::{Defence, MembershipVerdict};
use unmask_data::{Picture, decode};
use unmask_room::CandidatePicture;
use unmask_wire::view::{Control, MembershipView};

/// A model with a class token of sums over every 48th pixel, and a gradient of rank one.
#[derive(Debug)]
struct Sums;

impl Sums {
    fn reveal(flat: &mut [f32], picture: &[f32]) {
        let config = config();
        let range = layout().get(&class_token_gradient(&config).unwrap()).unwrap().range.clone();
        for (i, value) in flat[range].iter_mut().enumerate() {
            let token: f32 = picture.iter().skip(i % config.dim).step_by(config.dim).sum();
            *value = (1.0 + (i / config.dim) as f32).sin() * token;
        }
    }
}

impl Searches for Sums {
    fn gradient(&self, _: &WholeUpdate, _: &[usize], picture: &[f32]) -> Result<Vec<f64>, AttackError> {
        let mut flat = vec![0.0; layout().len()];
        Self::reveal(&mut flat, picture);
        Ok(flat.into_iter().map(f64::from).collect())
    }
}

fn drop_picture(class: &Class, values: &[f32]) {
    let side = config().image;
    let picture = Picture::from_hwc(side, side, values).unwrap();
    class.ask_about(CandidatePicture::copy(&picture, side).unwrap());
}

fn round(class: &Class, client: &mut Client) {
    class.control(Control::OneRound);
    let plan = client.plan();
    let mut values = revealing_gradient(&picture(1), 3);
    Sums::reveal(&mut values, &picture(1));
    if plan.defence.to_string() == "fixed-position" {
        values[layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    }
    client.update(&plan, values);
}

fn told(class: &Class, round: u32, part: &str) -> MembershipView {
    let is_told = |view: &MembershipView| view.round == round && view.picture.contains(part) && view.remark.is_some();
    let room = class.room_when("what is told", |room| room.membership.as_ref().is_some_and(is_told));
    room.membership.unwrap()
}

/// The newest update and all later ones are tested, and strangers are distinguished from members under each defence.
#[test]
fn members_and_strangers_are_told_apart() {
    let class = Class::with_model(Arc::new(Sums), |_| {});
    let mut ada = class.client("Ada");
    round(&class, &mut ada);
    class.room_when("the round", |room| room.losses.len() == 1);
    drop_picture(&class, &picture(1));
    let view = told(&class, 1, "/api/candidate/1.png");
    assert_eq!((view.verdict.map(MembershipVerdict::name), view.nickname.as_str()), (Some("member"), "Ada"));
    assert!(view.residual.unwrap() < 1e-5 && view.distractors.len() == 3, "{view:?}");
    let sentence = view.remark.unwrap();
    assert!(sentence.contains("does not fit") && sentence.contains("altered copy"), "{sentence}");
    let shown = class.picture(&view.picture).expect("the picture");
    assert_eq!(decode(&shown).unwrap().to_hwc(), picture(1));

    for (number, defence) in [(2, "random-binary:0.3"), (3, "fixed-position"), (4, "none")] {
        class.control(Control::Defence { defence: defence.parse().unwrap() });
        round(&class, &mut ada);
        let view = told(&class, number, "1.png");
        assert_eq!(
            (view.verdict.map(MembershipVerdict::name), view.defence.to_string().as_str()),
            (Some("member"), defence),
            "{:?}",
            view.remark
        );
    }
    drop_picture(&class, &picture(2));
    let view = told(&class, 4, "/api/candidate/2.png");
    assert_eq!(view.verdict.map(MembershipVerdict::name), Some("stranger"), "{view:?}");
    assert_eq!(class.picture("/api/candidate/1.png"), None);

    class.control(Control::ForgetCandidate);
    assert_eq!(class.room().membership, None);
    assert_eq!(class.picture("/api/candidate/2.png"), None);
}

/// A refused update changes nothing: the photograph is compared with the previous update.
#[test]
fn a_refused_update_leaves_the_model_of_the_one_before() {
    let class = Class::with_model(Arc::new(Sums), |_| {});
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let mut values = revealing_gradient(&picture(1), 3);
    Sums::reveal(&mut values, &picture(1));
    ada.update(&plan, values.clone());
    class.room_when("the round", |room| room.losses.len() == 1);
    ada.update(&plan, values);
    class.log_line("Ada: refused, the update is for round");
    drop_picture(&class, &picture(1));
    let view = told(&class, 1, "1.png");
    assert_eq!(view.verdict.map(MembershipVerdict::name), Some("member"), "{view:?}");
}

#[test]
fn what_cannot_be_told_is_said() {
    let class = Class::with_model(Arc::new(Sums), |config| config.defence = "encrypted".parse().unwrap());
    let mut ada = class.client("Ada");
    drop_picture(&class, &picture(1));
    let before = class.room().membership.unwrap();
    assert_eq!((before.round, before.verdict, before.remark), (0, None, None));
    class.control(Control::OneRound);
    ada.encrypted_round("seven grey herons", gradient(1));
    let view = told(&class, 1, "1.png");
    assert!(view.verdict.is_none() && view.remark.as_deref().unwrap().contains("encrypted"), "{view:?}");

    // Noise that drowns the picture must not make it a stranger.
    class.control(Control::Defence { defence: "gaussian:eps=1,delta=0.5,clip=0.5".parse().unwrap() });
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.send_update(&plan, 1.0, unmask_defence::ProtectedUpdate::dense(gradient(2)));
    let room = class.room_when("noise", |room| {
        room.membership.as_ref().is_some_and(|view| matches!(view.defence, Defence::Gaussian(_)))
    });
    let view = room.membership.unwrap();
    assert!(view.verdict.is_none_or(|verdict| verdict == MembershipVerdict::Undecided), "{view:?}");
    assert!(view.remark.unwrap().contains("noise"));
}
