//! The teacher's controls.

use crate::support::{Relay, http};
use unmask_wire::view::{Control, Phase};

#[tokio::test]
async fn only_the_token_drives_the_room() {
    let relay = Relay::start().await;
    let start = r#"{"do":"start"}"#;
    let wrong = "0".repeat(relay.running.token().len());
    let headers = [format!("Bearer {wrong}"), "Bearer ".into(), relay.running.token().into(), "Basic x".into()];
    for header in headers.iter().map(|header| vec![("authorization", header.as_str())]).chain([Vec::new()]) {
        let (status, _, sentence) = http(&relay.running, "POST", "/api/control", &header, start).await;
        assert_eq!(status, 401, "{header:?}");
        assert!(sentence.contains("teacher link"));
    }
    assert_eq!(relay.room().await.phase, Phase::Paused);
    relay.control(Control::Start).await;
    assert_eq!(relay.room().await.phase, Phase::Waiting);
    relay.control(Control::Pause).await;
    assert_eq!(relay.room().await.phase, Phase::Paused);
}

#[tokio::test]
async fn bad_controls_name_what_is_wrong() {
    let relay = Relay::start().await;
    let token = format!("Bearer {}", relay.running.token());
    let headers = [("authorization", token.as_str())];
    for (body, part) in [
        ("", "cannot be read"),
        (r#"{"do":"dance"}"#, "dance"),
        (r#"{"do":"defence"}"#, "defence"),
        (r#"{"do":"defence","defence":"prayer"}"#, "unknown defence \"prayer\""),
        (r#"{"do":"defence","defence":"random-binary:1.5"}"#, "1.5 is not a share of zeros"),
        (r#"{"do":"defence","defence":"random-binary:nan"}"#, "NaN"),
        (r#"{"do":"defence","defence":"random-binary:pos=2,0.5"}"#, "2 is not a share of zeros"),
        (r#"{"do":"defence","defence":"gaussian:eps=0,delta=1e-5,clip=1"}"#, "eps"),
        (r#"{"do":"rule","rule":"fedavg:epochs=0"}"#, "\"0\" is not a number of local epochs"),
        (r#"{"do":"rule","rule":"gossip"}"#, "unknown rule \"gossip\""),
        (r#"{"do":"optimiser","optimiser":"lion:1"}"#, "\"lion:1\" is not an optimiser"),
        (r#"{"do":"batch","samples":0}"#, "a batch of 0 samples trains nothing"),
        (r#"{"do":"batch","samples":70000}"#, "70000"),
        (r#"{"do":"target","client":77}"#, "no client 77"),
        (r#"{"do":"april_block","on":"yes"}"#, "yes"),
        (r#"{"do":"train_on","pictures":"stolen"}"#, "\"stolen\" pictures; choose private or shared"),
        (r#"{"do":"partition","partition":"cake"}"#, "cake"),
        (r#"{"do":"partition","partition":"dirichlet:0"}"#, "dirichlet"),
        (r#"{"do":"model","start":"zero"}"#, "scratch or pretrained"),
        (r#"{"do":"model","start":"pretrained"}"#, "no pretrained weights for vit_pico_patch4_16"),
        (r#"{"do":"evaluation_budget","seconds":-1}"#, "-1 is not a valid time"),
        (r#"{"do":"together","controls":[{"do":"new_key"}]}"#, "new_key"),
        (r#"{"do":"together","controls":[{"do":"dance"}]}"#, "dance"),
    ] {
        let (status, _, sentence) = http(&relay.running, "POST", "/api/control", &headers, body).await;
        assert_eq!(status, 400, "{body}");
        assert!(sentence.contains(part), "{body}: {sentence}");
    }
    let (status, ..) = http(&relay.running, "POST", "/api/control", &headers, &" ".repeat(20_000)).await;
    assert_eq!(status, 413);
    let (status, ..) = http(&relay.running, "GET", "/api/control", &headers, "").await;
    assert_eq!(status, 405);
}
