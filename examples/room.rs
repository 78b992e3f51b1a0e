//! A room in one process: a relay, and three clients that train in it until round 20.
//!
//!     cargo xtask example room random-binary:0.5

use std::{env, time::Duration};

use unmask_client::{
    Caution,
    native::{JoinOptions, join, sample_photographs},
};
use unmask_model::device::OpenDevice;
use unmask_relay::{RelayConfig, RoomConfig, serve};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let defence = env::args().nth(1).as_deref().unwrap_or("none").parse()?;
    let folder = tempfile::tempdir()?;
    let [http_port, https_port] = [0; 2];
    let room = RoomConfig { defence, start: true, ..RoomConfig::default() };
    let config = RelayConfig { room, http_port, https_port, ..RelayConfig::new(folder.path().into()) };
    let room = serve(config).await?;
    println!("The teacher: {}", room.local_teacher_link());
    for (name, picture) in ["Ada", "Emmy", "Grace"].into_iter().zip(sample_photographs()?) {
        let (address, name, device) = (room.own_student_link(), name.to_owned(), OpenDevice::cpu());
        let samples = vec![picture];
        tokio::spawn(join(JoinOptions {
            address,
            pin: None,
            name,
            samples,
            may_show: true,
            shows: false,
            answer_seed: None,
            passphrase: None,
            device,
            // Its relay is this process.
            caution: Caution::Off,
            accept_any_certificate: false,
        }));
    }
    let mut round = 0;
    while round < 20 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let url = format!("{}api/room", room.own_address());
        let secret = format!("Bearer {}", room.projector_secret());
        let request = ureq::get(url).header("Authorization", secret);
        let view = tokio::task::spawn_blocking(|| request.call()?.body_mut().read_to_string()).await??;
        let view: serde_json::Value = serde_json::from_str(&view)?;
        round = view["round"].as_u64().unwrap_or_default();
        println!("{}", view["losses"].as_array().and_then(|losses| losses.last()).unwrap_or(&view["phase"]));
    }
    room.shutdown().await;
    Ok(())
}
