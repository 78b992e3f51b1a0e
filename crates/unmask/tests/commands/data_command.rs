//! `unmask data` as a user runs it.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// Runs `unmask data` with an empty folder for CIFAR-10.
fn data(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unmask"))
        .arg("data")
        .args(arguments)
        .env("UNMASK_CIFAR10", folder.join("cifar10"))
        .current_dir(folder)
        .output()
        .unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_sheet_shows_every_class() {
    let folder = tempfile::tempdir().unwrap();
    let output = data(&["show", "generated", "--half", "test", "--columns", "3", "--out", "sheet.png"], folder.path());
    assert!(output.status.success(), "{}", said(&output.stderr));
    let list = said(&output.stdout);
    assert!(list.contains("   1000    200  disc\n") && list.contains("  10000   2000  in all\n"), "{list}");
    let sheet = unmask_data::decode(&fs::read(folder.path().join("sheet.png")).unwrap()).unwrap();
    assert_eq!((sheet.width(), sheet.height()), (3 * 66 + 2, 10 * 66 + 2), "a row for each class, pixels doubled");
    let output = data(&["show", "generated", "--out", "sheet.jpg"], folder.path());
    assert_eq!((output.status.code(), said(&output.stdout).as_str()), (Some(2), ""));
    let message = said(&output.stderr);
    assert!(message.contains("a PNG picture, but sheet.jpg does not end in .png; give --out sheet.png"), "{message}");
    assert!(!folder.path().join("sheet.jpg").exists());
}

#[test]
fn folders_say_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let png = unmask_data::encode_png(&unmask_data::Picture::new(1, 1, vec![7; 3]).unwrap()).unwrap();
    for file in ["pets/cat/1.png", "pets/cat/2.png", "pets/cat/3.png", "pets/dog/1.png"] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &png).unwrap();
    }
    let output = data(&["show", "folder:pets"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let message = said(&output.stderr);
    assert!(message.contains("class \"dog\" has 1 picture; at least 2 are needed"), "{message}");
    fs::write(folder.path().join("pets/dog/2.png"), &png).unwrap();
    fs::write(folder.path().join("pets/dog/3.png"), &png[..20]).unwrap();
    let output = data(&["show", "folder:pets"], folder.path());
    assert!(output.status.success());
    assert!(said(&output.stderr).contains("3.png is left out: the picture cannot be read"), "{}", said(&output.stderr));
    assert!(said(&output.stdout).contains("      2      1  cat\n      1      1  dog\n"), "{}", said(&output.stdout));
    for arguments in [&["show", "cifar10"][..], &["show", "cifar10", "--cifar10", "nope"]] {
        let output = data(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2));
        let message = said(&output.stderr);
        let nowhere = arguments.last().unwrap();
        assert!(
            message.contains(&format!("{nowhere} with CIFAR-10 in it"))
                && message.contains("`unmask data cifar10` fetches"),
            "{message}"
        );
    }
}

#[test]
fn what_holds_no_cifar_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page.tar.gz"), b"<html>sign in to this network</html>").unwrap();
    let output = data(&["cifar10", "--from", "page.tar.gz"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let message = said(&output.stderr);
    assert!(message.contains("page.tar.gz is no complete archive (.tar.gz) of CIFAR-10: "), "{message}");
    let output = data(&["cifar10", "--from", "nowhere"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output.stderr).contains("nowhere cannot be read: No such file"), "{}", said(&output.stderr));
    // No service listens on port 1.
    let output = data(&["cifar10", "--url", "http://127.0.0.1:1/cifar.tar.gz"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let message = said(&output.stderr);
    assert!(message.contains("http://127.0.0.1:1/cifar.tar.gz cannot be reached ("), "{message}");
    assert!(message.contains("fetch the archive elsewhere and give it with --from PATH"), "{message}");
}

/// The relay has a certificate of its own, as a school's proxy has: it is trusted only where `SSL_CERT_FILE` names it.
#[test]
fn the_authorities_that_a_user_names_are_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready.json");
    let mut relay = Command::new(env!("CARGO_BIN_EXE_unmask"))
        .args(["relay", "--http-port", "0", "--https-port", "0", "--data-dir"])
        .arg(folder.path().join("relay"))
        .arg("--ready-file")
        .arg(&ready)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let address = loop {
        let read = fs::read(&ready).ok().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        match read {
            Some(read) => break read["https"].as_str().unwrap().to_owned(),
            None => assert!(begun.elapsed() < Duration::from_secs(60), "no relay"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let port = address.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let fetch = |authorities: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_unmask"))
            .args(["data", "cifar10", "--url", &format!("https://localhost:{port}/no-such-file"), "--dir"])
            .arg(folder.path().join("cifar10"))
            .env("SSL_CERT_FILE", authorities)
            .output()
            .unwrap();
        said(&output.stderr)
    };
    let certificates = |folder: &Path| -> Vec<std::path::PathBuf> {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("BEGIN CERTIFICATE"))).collect()
    };
    let certificate = certificates(&folder.path().join("relay")).pop().expect("a certificate");
    let trusted = fetch(&certificate);
    let other = folder.path().join("none.pem");
    fs::write(&other, "no certificate").unwrap();
    let broken = fetch(&other);
    relay.kill().unwrap();
    relay.wait().unwrap();
    assert!(trusted.contains("answers with status 404"), "{trusted}");
    assert!(broken.contains("none.pem, which holds no certificates (it has no PEM certificate)"), "{broken}");
}
