//! The picture that the teacher drops.

use crate::support::{
    Relay, http_bytes,
    private::{config, picture},
};
use unmask_data::{Picture, decode, encode_png};
use unmask_wire::view::Control;

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

#[tokio::test]
async fn a_picture_is_shown_until_another_one_or_none() {
    let relay = Relay::start().await;
    for number in [1, 2] {
        assert_eq!(drop_file(&relay, &png(&picture(number))).await, (204, String::new()));
        let path = relay.room().await.membership.unwrap().picture;
        assert_eq!(path.as_str(), format!("/api/candidate/{number}.png"));
        let (status, _, shown) = relay.get(&path).await;
        assert_eq!((status, decode(&shown).unwrap().to_hwc()), (200, picture(number)));
    }
    assert_eq!(relay.get("/api/candidate/1.png").await.0, 404);
    relay.control(Control::ForgetCandidate).await;
    assert_eq!(relay.room().await.membership, None);
    assert_eq!(relay.get("/api/candidate/2.png").await.0, 404);
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
