//! Flower's own server for tests: a real SuperLink of flwr 1.41.0, on a free port, in a temporary folder.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use unmask_core::Architecture;
use unmask_model::weights::{Storage, encode_state};

/// The variable with the folder of Flower's programs, which `cargo xtask` creates and sets.
const PROGRAMS: &str = "UNMASK_FLOWER_PROGRAMS";
const NAME: &str = "here";
/// Longest wait for Flower, whose programs take seconds to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// Ports that are tried. Another program may take one before the SuperLink does.
const ATTEMPTS: usize = 5;

/// Writes a node's private key and its public key.
const KEY: &str = "\
import sys
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import serialization as s
key = ec.generate_private_key(ec.SECP384R1())
open(sys.argv[1], 'wb').write(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
open(sys.argv[2], 'wb').write(key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH))
";

/// Writes a self-signed certificate of this machine, and its key.
const CERTIFICATE: &str = "\
import datetime, ipaddress, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as s
from cryptography.hazmat.primitives.asymmetric import ec
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'a SuperLink under test')])
now = datetime.datetime.now(datetime.timezone.utc)
day = datetime.timedelta(days=1)
alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address('127.0.0.1')), x509.DNSName('localhost')])
certificate = (
    x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    .serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    .add_extension(alternatives, critical=False).sign(key, hashes.SHA256())
)
open(sys.argv[1], 'wb').write(certificate.public_bytes(s.Encoding.PEM))
open(sys.argv[2], 'wb').write(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
";

/// The example app with both strategies.
fn app() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/flower")
}

/// A running SuperLink. When dropped, it ends with all its descendants, even if the test failed.
pub struct SuperLink {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    /// Whether it only accepts registered nodes, which Flower supports over TLS.
    is_closed: bool,
}

pub struct Run {
    log: PathBuf,
    child: Child,
}

/// A node's key in two files.
pub struct Key {
    pub private: PathBuf,
    pub public: PathBuf,
}

impl SuperLink {
    /// Starts a SuperLink that accepts every node, and waits until it answers. Returns the reason if Flower is missing.
    pub fn open() -> Result<Self, String> {
        Self::start(false)
    }

    /// Like [`open`](Self::open), for a SuperLink with its own certificate that only accepts registered nodes.
    pub fn closed() -> Result<Self, String> {
        Self::start(true)
    }

    fn start(is_closed: bool) -> Result<Self, String> {
        let programs =
            env::var_os(PROGRAMS).map(PathBuf::from).filter(|folder| folder.join("flower-superlink").exists());
        let programs = programs.ok_or_else(|| {
            format!("there is no flwr 1.41.0; `cargo xtask test --test flower` installs it and sets {PROGRAMS}")
        })?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut link = Self { folder, programs, port: 0, is_closed };
        fs::create_dir(link.home()).expect("a folder");
        let security = if is_closed {
            let certificate = link.certificate();
            link.python(CERTIFICATE, &[&certificate, &link.certificate_key()]);
            format!("root-certificates = {certificate:?}")
        } else {
            "insecure = true".to_owned()
        };
        for _ in 0..ATTEMPTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|taken| taken.local_addr());
            link.port = free.expect("a port").port();
            let address = format!("address = \"127.0.0.1:{}\"", link.port);
            let settings = format!("[superlink]\ndefault = \"{NAME}\"\n\n[superlink.{NAME}]\n{address}\n{security}\n");
            fs::write(link.home().join("config.toml"), settings).expect("settings");
            if link.launch() {
                return Ok(link);
            }
        }
        panic!("{ATTEMPTS} ports were taken between their choice and the start: {}", tail(&link.said()));
    }

    /// Starts its process and waits until it answers. Returns false if another program has taken the port.
    fn launch(&self) -> bool {
        let before = self.said().len();
        let mut command = self.command("flower-superlink");
        if self.is_closed {
            let certificate = self.certificate();
            command.arg("--enable-supernode-auth").arg("--ssl-certfile").arg(&certificate);
            command.arg("--ssl-ca-certfile").arg(&certificate).arg("--ssl-keyfile").arg(self.certificate_key());
        } else {
            command.arg("--insecure");
        }
        let log = || File::options().create(true).append(true).open(self.log()).expect("a log");
        let mut child = command
            .args([
                "--host",
                "127.0.0.1",
                "--port",
                &self.port.to_string(),
                "--disable-runtime-dependency-installation",
            ])
            .stdout(log())
            .stderr(log())
            .spawn()
            .expect("the SuperLink starts");
        self.until("the SuperLink answers", || {
            let said = self.said();
            let new = said.get(before..).unwrap_or_default();
            if new.contains("address already in use") {
                let _ = child.kill();
                let _ = child.wait();
                return Some(false);
            }
            let ended = child.try_wait().expect("a process");
            assert!(ended.is_none(), "the SuperLink ended: {}", tail(&said));
            // Somebody else may answer at the port, so that the SuperLink itself must say that it does.
            let runs = new.contains("Uvicorn running");
            (runs && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()).then_some(true)
        })
    }

    /// Kills it with its descendants while `away` runs. It forgets nodes and runs, because they are only in memory.
    pub fn is_gone_while(&self, away: impl FnOnce()) {
        self.kill();
        away();
        assert!(self.launch(), "its port is taken: {}", tail(&self.said()));
    }

    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.is_closed { "https" } else { "http" }, self.port)
    }

    /// The certificate of a closed SuperLink, which is self-signed.
    pub fn certificate(&self) -> PathBuf {
        self.folder().join("superlink.pem")
    }

    fn certificate_key(&self) -> PathBuf {
        self.folder().join("superlink.key")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    pub fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(found) = found() {
                return found;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("{what}: not within {PATIENCE:?}; the SuperLink said: {}", tail(&self.said()));
    }

    /// Starts a run of the app with these settings, in the format of `flwr run --run-config`.
    pub fn run(&self, name: &str, settings: &str) -> Run {
        let log = self.folder().join(format!("{name}.log"));
        let child = self
            .command("flwr")
            .arg("run")
            .arg(app())
            .args([NAME, "--stream", "--run-config", settings])
            .stdout(File::create(&log).expect("a log"))
            .stderr(File::options().append(true).open(&log).expect("a log"))
            .spawn()
            .expect("flwr starts");
        Run { log, child }
    }

    pub fn key(&self, name: &str) -> Key {
        let key = Key {
            private: self.folder().join(format!("{name}.pem")),
            public: self.folder().join(format!("{name}.pub")),
        };
        self.python(KEY, &[&key.private, &key.public]);
        key
    }

    /// Writes initial weights for runs of a model, always the same.
    pub fn start_weights(&self, architecture: Architecture) -> PathBuf {
        let path = self.folder().join("start.safetensors");
        let weights = encode_state(architecture, &architecture.initial(5), Storage::F32).expect("weights");
        fs::write(&path, weights).expect("a file");
        path
    }

    pub fn register(&self, key: &Key) {
        let output = self.command("flwr").args(["supernode", "register"]).arg(&key.public).arg(NAME).output();
        let output = output.expect("flwr starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }

    fn python(&self, program: &str, arguments: &[&Path]) {
        let output = self.command("python").args(["-c", program]).args(arguments).output().expect("Python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        let path = env::join_paths(
            std::iter::once(self.programs.clone()).chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
        );
        command
            .env("PATH", path.expect("a search path"))
            .env("FLWR_HOME", self.home())
            .env("FLWR_TELEMETRY_ENABLED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        command
    }

    fn home(&self) -> PathBuf {
        self.folder().join("flwr")
    }

    fn log(&self) -> PathBuf {
        self.folder().join("superlink.log")
    }

    /// The numbers of its descendant processes. They leave its process group, but keep its environment.
    pub fn processes(&self) -> Vec<u32> {
        let mark = [b"FLWR_HOME=", self.home().as_os_str().as_encoded_bytes()].concat();
        let number = |entry: fs::DirEntry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            environment.split(|byte| *byte == 0).any(|variable| variable == mark).then_some(number)
        };
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number).collect()
    }

    fn kill(&self) {
        // A killed process starts no others, but the remaining ones can until they are killed.
        for _ in 0..50 {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            for number in processes {
                let _ = Command::new("kill").args(["-KILL", &number.to_string()]).stderr(Stdio::null()).status();
            }
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for SuperLink {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Run {
    /// Waits for the end of the run; returns the app's output.
    pub fn wait(mut self, link: &SuperLink) -> String {
        link.until("the run's end", || self.child.try_wait().expect("a process"));
        self.said()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a process").is_some()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// A path as a value for `--run-config`.
pub fn quoted(path: impl AsRef<OsStr>) -> String {
    format!("{:?}", path.as_ref().to_str().expect("a path in Unicode"))
}
