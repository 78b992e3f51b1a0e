//! The relay under test, as a separate process.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use unmask_wire::view::Control;

use crate::{measure::Usage, socket::fetch};

const PATIENCE: Duration = Duration::from_secs(60);

/// The room's address and key.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// The key in a student's link, if the room asks for one.
    pub(crate) key: Option<String>,
    /// The number in the browser's cookie; programs have none.
    pub(crate) browser: Option<u128>,
}

/// Further arguments of a relay whose rounds run immediately. A round waits for all clients, so that a lost update is the
/// relay's fault.
pub(crate) const RUNS: [&str; 3] = ["--start", "--quorum", "1"];

/// A running relay; stopped when dropped.
#[derive(Debug)]
pub(crate) struct RelayProcess {
    child: Child,
    door: Door,
    /// The teacher's secret.
    token: String,
    // Holds the certificate as long as the relay runs.
    _folder: TempDir,
}

impl RelayProcess {
    /// Starts `program` as a relay on free ports of this machine, with `more` arguments. Attacks and evaluations are off;
    /// rounds never wait for them. `files` limits the relay's open files, if given.
    pub(crate) async fn start(
        program: &Path,
        files: Option<u32>,
        model: &str,
        pace: Duration,
        deadline: Duration,
        more: &[&str],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the relay")?;
        let ready = folder.path().join("ready.json");
        let child = limited(program, files)
            .args(["relay", "--bind", "127.0.0.1", "--http-port", "0", "--https-port", "0"])
            .args(["--attack-seconds", "0", "--test-seconds", "0", "--optimiser", "sgd:0.001", "--model", model])
            .args(more)
            .args(["--pace", &pace.as_secs_f64().to_string(), "--deadline", &deadline.as_secs_f64().to_string()])
            .arg("--data-dir")
            .arg(folder.path())
            .arg("--ready-file")
            .arg(&ready)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let unknown = Door { address: (Ipv4Addr::LOCALHOST, 0).into(), key: None, browser: None };
        let mut relay = Self { child, door: unknown, token: String::new(), _folder: folder };
        (relay.door, relay.token) = relay.opened(&ready).await?;
        Ok(relay)
    }

    async fn opened(&mut self, ready: &Path) -> anyhow::Result<(Door, String)> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(ready) = fs::read(ready).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
                return Ok((door(&ready)?, ready["token"].as_str().unwrap_or_default().to_owned()));
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the relay ended immediately ({status}); see its message above");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the relay opened no room within {} s", PATIENCE.as_secs())
    }

    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    /// Runs one of the teacher's controls.
    pub(crate) async fn control(&self, control: &Control) -> anyhow::Result<()> {
        let body = serde_json::to_string(control)?;
        fetch(&self.door, "POST /api/control", Some(&self.token), &body).await.map(drop)
    }

    /// What the teacher's page gets at this path.
    pub(crate) async fn page(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        fetch(&self.door, &format!("GET {path}"), Some(&self.token), "").await
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        Usage::of(self.child.id())
    }

    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the relay has ended: {ended:?}");
        Ok(())
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call of the program. The shell that sets the limit replaces itself with the program, so the process number is the
/// relay's.
fn limited(program: &Path, files: Option<u32>) -> Command {
    let Some(files) = files else { return Command::new(program) };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]).arg(program);
    command
}

/// The address and the key in a ready file.
fn door(ready: &Value) -> anyhow::Result<Door> {
    let http = ready["http"].as_str().context("the ready file has no address")?;
    let port = http.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.with_context(|| format!("{http} has no port"))?;
    let key = ready["room_key"].as_str().map(str::to_owned);
    Ok(Door { address: (Ipv4Addr::LOCALHOST, port).into(), key, browser: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_key_is_taken_where_there_is_one() {
        let open = door(&json!({"http": "http://localhost:8080/"})).unwrap();
        assert_eq!((open.address.port(), open.key), (8080, None));
        let locked = door(&json!({"http": "http://localhost:1/", "room_key": "k"})).unwrap();
        assert_eq!(locked.key.as_deref(), Some("k"));
        assert!(door(&json!({"http": "http://localhost/"})).is_err());
    }
}
