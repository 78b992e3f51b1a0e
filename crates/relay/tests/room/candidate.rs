//! Membership of the teacher's picture in the client's update.

use std::sync::Arc;

use crate::support::{
    Client, Relay, gradient, http_bytes,
    private::{config, picture, revealing_gradient},
};
use unmask_attack::{AttackError, Searches, WholeUpdate, class_token_gradient};
use unmask_core::{Defence, MembershipVerdict};
use unmask_data::{Picture, decode, encode_png};
use unmask_wire::view::{Control, MembershipView};

/// A model with a class token of sums over every 48th pixel, and a gradient of rank one.
#[derive(Debug)]
struct Sums;

impl Sums {
    fn reveal(flat: &mut [f32], picture: &[f32]) {
        let config = config();
        let range = crate::support::layout().get(&class_token_gradient(&config).unwrap()).unwrap().range.clone();
        for (i, value) in flat[range].iter_mut().enumerate() {
            let token: f32 = picture.iter().skip(i % config.dim).step_by(config.dim).sum();
            *value = (1.0 + (i / config.dim) as f32).sin() * token;
        }
    }
}

impl Searches for Sums {
    fn gradient(&self, _: &WholeUpdate, _: &[usize], picture: &[f32]) -> Result<Vec<f64>, AttackError> {
        let mut flat = vec![0.0; crate::support::layout().len()];
        Self::reveal(&mut flat, picture);
        Ok(flat.into_iter().map(f64::from).collect())
    }
}

fn png(values: &[f32]) -> Vec<u8> {
    let side = config().image;
    encode_png(&Picture::from_hwc(side, side, values).unwrap()).unwrap()
}

async fn drop_file(relay: &Relay, file: &[u8]) -> (u16, String) {
    let token = format!("Bearer {}", relay.running.token());
    let headers = [("authorization", token.as_str())];
    let (status, _, body) = http_bytes(&relay.running, "POST", "/api/candidate", &headers, file).await;
    (status, String::from_utf8(body).unwrap())
}

async fn round(relay: &Relay, client: &mut Client, seed: u8) {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    let mut values = revealing_gradient(&picture(1), 3);
    Sums::reveal(&mut values, &picture(1));
    if plan.defence.to_string() == "fixed-position" {
        values[crate::support::layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    }
    client.update(&plan, values, [seed; 32]).await;
}

async fn told(relay: &Relay, round: u32, part: &str) -> MembershipView {
    let is_told = |view: &MembershipView| view.round == round && view.picture.contains(part) && view.remark.is_some();
    let room = relay.room_when("what is told", |room| room.membership.as_ref().is_some_and(is_told)).await;
    room.membership.unwrap()
}

/// The newest update and all later ones are tested, and strangers are distinguished from members under each defence.
#[tokio::test]
async fn members_and_strangers_are_told_apart() {
    let relay = Relay::with(|config| config.searches = Some(Arc::new(Sums))).await;
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada, 1).await;
    relay.room_when("the round", |room| room.losses.len() == 1).await;
    assert_eq!(drop_file(&relay, &png(&picture(1))).await, (204, String::new()));
    let view = told(&relay, 1, "/api/candidate/1.png").await;
    assert_eq!((view.verdict.map(MembershipVerdict::name), view.nickname.as_str()), (Some("member"), "Ada"));
    assert!(view.residual.unwrap() < 1e-5 && view.distractors.len() == 3, "{view:?}");
    let sentence = view.remark.unwrap();
    assert!(sentence.contains("does not fit") && sentence.contains("altered copy"), "{sentence}");
    let (status, _, shown) = relay.get(&view.picture).await;
    assert_eq!((status, decode(&shown).unwrap().to_hwc()), (200, picture(1)));

    for (number, defence) in [(2, "random-binary:0.3"), (3, "fixed-position"), (4, "none")] {
        relay.control(Control::Defence { defence: defence.parse().unwrap() }).await;
        round(&relay, &mut ada, number).await;
        let view = told(&relay, number.into(), "1.png").await;
        assert_eq!(
            (view.verdict.map(MembershipVerdict::name), view.defence.to_string().as_str()),
            (Some("member"), defence),
            "{:?}",
            view.remark
        );
    }
    assert_eq!(drop_file(&relay, &png(&picture(2))).await.0, 204);
    let view = told(&relay, 4, "/api/candidate/2.png").await;
    assert_eq!(view.verdict.map(MembershipVerdict::name), Some("stranger"), "{view:?}");
    let (status, ..) = relay.get("/api/candidate/1.png").await;
    assert_eq!(status, 404);

    relay.control(Control::ForgetCandidate).await;
    assert_eq!(relay.room().await.membership, None);
    let (status, ..) = relay.get("/api/candidate/2.png").await;
    assert_eq!(status, 404);
}

/// A refused update changes nothing: the photograph is compared with the previous update.
#[tokio::test]
async fn a_refused_update_leaves_the_model_of_the_one_before() {
    let relay = Relay::with(|config| config.searches = Some(Arc::new(Sums))).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let mut values = revealing_gradient(&picture(1), 3);
    Sums::reveal(&mut values, &picture(1));
    ada.update(&plan, values.clone(), [1; 32]).await;
    relay.room_when("the round", |room| room.losses.len() == 1).await;
    ada.update(&plan, values, [2; 32]).await;
    relay.log_line("Ada: refused, the update is for round").await;
    assert_eq!(drop_file(&relay, &png(&picture(1))).await, (204, String::new()));
    let view = told(&relay, 1, "1.png").await;
    assert_eq!(view.verdict.map(MembershipVerdict::name), Some("member"), "{view:?}");
}

#[tokio::test]
async fn what_cannot_be_told_is_said() {
    let relay = Relay::with(|config| {
        config.room.defence = "encrypted".parse().unwrap();
        config.searches = Some(Arc::new(Sums));
    })
    .await;
    let mut ada = relay.client("Ada").await;
    assert_eq!(drop_file(&relay, &png(&picture(1))).await.0, 204);
    let before = relay.room().await.membership.unwrap();
    assert_eq!((before.round, before.verdict, before.remark), (0, None, None));
    relay.control(Control::OneRound).await;
    ada.encrypted_round("seven grey herons", gradient(1)).await;
    let view = told(&relay, 1, "1.png").await;
    assert!(view.verdict.is_none() && view.remark.as_deref().unwrap().contains("encrypted"), "{view:?}");

    // Noise that drowns the picture must not make it a stranger.
    relay.control(Control::Defence { defence: "gaussian:eps=1,delta=0.5,clip=0.5".parse().unwrap() }).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.send_update(&plan, 1.0, unmask_defence::ProtectedUpdate::dense(gradient(2))).await;
    let room = relay.room_when("noise", |room| {
        room.membership.as_ref().is_some_and(|view| matches!(view.defence, Defence::Gaussian(_)))
    });
    let view = room.await.membership.unwrap();
    assert!(view.verdict.is_none_or(|verdict| verdict == MembershipVerdict::Undecided), "{view:?}");
    assert!(view.remark.unwrap().contains("noise"));
}

#[tokio::test]
async fn files_that_are_no_pictures_are_refused() {
    let relay = Relay::start().await;
    let (status, ..) = http_bytes(&relay.running, "POST", "/api/candidate", &[], png(&picture(1))).await;
    assert_eq!(status, 401);
    for (file, part) in
        [(&b"<svg/>"[..], "not a PNG, JPEG or WebP"), (&png(&picture(1))[..60], "cannot be read"), (b"", "not a PNG")]
    {
        let (status, sentence) = drop_file(&relay, file).await;
        assert_eq!(status, 400);
        assert!(sentence.contains(part) && sentence.ends_with('.'), "{sentence}");
    }
    let (status, _) = drop_file(&relay, &vec![0; (8 << 20) + 1]).await;
    assert_eq!(status, 413);
    assert_eq!(relay.room().await.membership, None);
}
