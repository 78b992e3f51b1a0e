//! What the program opens before a lesson: the teacher's page in a browser, and ports for a test of the network.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

/// A relay that is killed when dropped.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Relay {
    fn interrupt(&mut self) {
        let killed = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(killed.success() && self.0.wait().unwrap().success());
    }
}

fn relay(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
    command.args(["relay", "--http-port", "0", "--https-port", "0", "--bind", "127.0.0.1", "--data-dir"]);
    command.arg(folder.join("data")).args(arguments).stderr(Stdio::null());
    command
}

fn when<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let found = (0..600).find_map(|_| {
        look().or_else(|| {
            sleep(Duration::from_millis(100));
            None
        })
    });
    found.unwrap_or_else(|| panic!("waited in vain for {what}"))
}

/// Every user of a machine can read the arguments of every program on it.
#[cfg(target_os = "linux")]
#[test]
fn no_program_gets_the_teachers_token_as_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    let opener = at("bin/xdg-open");
    fs::write(
        &opener,
        "#!/bin/sh\nstat -c %a \"$1\" > \"$HOME/mode\"\ncat \"$1\" > \"$HOME/page\"\necho \"$@\" > \"$HOME/told\"\n",
    )
    .unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap());
    let ready = at("ready.json");
    let mut command = relay(folder.path(), &["--open", "--no-journal", "--ready-file"]);
    command.arg(&ready).env("PATH", path).env("HOME", folder.path()).env("DISPLAY", ":99").stdout(Stdio::null());
    let mut relay = Relay(command.spawn().unwrap());
    let told = when("the opener", || fs::read_to_string(at("told")).ok().filter(|told| told.ends_with('\n')));
    let ready: Value = serde_json::from_str(&fs::read_to_string(&ready).unwrap()).unwrap();
    let token = ready["token"].as_str().unwrap();
    assert!(token.len() == 32 && !told.contains(token), "{told}");
    assert!(fs::read_to_string(at("page")).unwrap().contains(token));
    assert_eq!(fs::read_to_string(at("mode")).unwrap(), "600\n");
    relay.interrupt();
    assert!(!Path::new(told.trim()).exists(), "the page is removed");
}

#[test]
fn a_test_of_the_network_says_what_it_cannot_tell_and_answers_phones() {
    let folder = tempfile::tempdir().unwrap();
    let mut relay = Relay(relay(folder.path(), &["--check"]).stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(relay.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = Vec::new();
    for line in lines {
        let is_last = line.starts_with("Ctrl-C ends");
        said.push(line);
        if is_last {
            break;
        }
    }
    let line =
        |subject: &str| said.iter().find(|line| line.starts_with(subject)).unwrap_or_else(|| panic!("{said:#?}"));
    assert!(line("address").contains("problem") && line("address").contains("--bind"));
    assert!(line("isolation").contains("cannot tell") && line("isolation").contains("with a phone"));
    assert!(line("firewall").contains("cannot tell") && line("certificate").contains("warns once"));
    let port = said.iter().find_map(|line| line.trim().strip_prefix("http://localhost:")?.strip_suffix('/'));
    let mut phone = TcpStream::connect(("127.0.0.1", port.unwrap().parse::<u16>().unwrap())).unwrap();
    phone.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    phone.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("This device reaches the relay"), "{answer}");
    assert!(!folder.path().join("data").join("journal-a.redb").exists(), "no lesson begins");
    relay.interrupt();
}
