//! Opens pages in a browser of this machine.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use tracing::warn;

/// Time for a browser to start and read the page of a link, also on a slow machine.
const READ: Duration = Duration::from_secs(120);

/// Opens an address that holds no secret in a browser, if there is a desktop.
pub fn open_page(address: &str) {
    if has_desktop() {
        start(address.as_ref(), address);
    }
}

/// Opens a link that holds a secret in a browser, if there is a desktop. Every user of this machine can read the
/// arguments of every program, so the opener gets the path of a page that leads to the link, which only this user can
/// read. Keep the returned page for as long as the browser may need it; it removes its file two minutes later too.
pub(super) fn open_secret_link(link: &str) -> Option<LeadingPage> {
    if !has_desktop() {
        return None;
    }
    // Browsers in a snap see neither the temporary folder nor hidden ones.
    let folders = env::home_dir().into_iter().chain([env::temp_dir()]);
    let mut problem = None;
    for folder in folders {
        match LeadingPage::write(&folder, link) {
            Ok(page) => {
                start(&page.path, "the teacher link");
                page.remove_after(READ);
                return Some(page);
            }
            Err(error) => problem = Some(error),
        }
    }
    if let Some(error) = problem {
        warn!("no page can be written for the browser ({error}); open the teacher link by hand");
    }
    None
}

/// A file with a page that leads to a link at once. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct LeadingPage {
    path: PathBuf,
}

impl LeadingPage {
    /// # Errors
    /// The file cannot be created: it is there already, or the folder cannot be written.
    fn write(folder: &Path, link: &str) -> io::Result<Self> {
        let path = folder.join(format!("unmask-teacher-{}.html", std::process::id()));
        let mut options = fs::OpenOptions::new();
        // A new file, so that nobody can have opened it before or led its name elsewhere.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        let page = Self { path };
        file.write_all(leading_to(link).as_bytes())?;
        Ok(page)
    }

    fn remove_after(&self, time: Duration) {
        let path = self.path.clone();
        thread::spawn(move || {
            thread::sleep(time);
            let _ = fs::remove_file(path);
        });
    }
}

impl Drop for LeadingPage {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}

/// A page that leads to a link of this program, which has no character that HTML would read otherwise.
fn leading_to(link: &str) -> String {
    let policy = unmask_html::policy(unmask_html::POLICY).into_string();
    format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n{policy}\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\">\n<title>unmask</title>\n\
         <p><a href=\"{link}\">The teacher's page</a></p>\n"
    )
}

fn has_desktop() -> bool {
    cfg!(any(windows, target_os = "macos"))
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some())
}

/// Opens an address or a file as a double click would. `what` names it in words.
fn start(address: &Path, what: &str) {
    let mut command = opener(address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        warn!("{} does not start ({error}); open {what} by hand", command.get_program().display());
    }
}

#[cfg(not(windows))]
fn opener(address: &Path) -> Command {
    let mut command = Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    command.arg(address);
    command
}

/// The shell's `start`, which takes its first quoted word for a title. No path has quotes on Windows, and no address of
/// ours.
#[cfg(windows)]
fn opener(address: &Path) -> Command {
    use std::os::windows::process::CommandExt as _;
    let mut quoted = std::ffi::OsString::from("\"");
    quoted.push(address);
    quoted.push("\"");
    let mut command = Command::new("cmd");
    command.args(["/d", "/c", "start"]).raw_arg("\"\"").raw_arg(quoted);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "https://localhost:8443/#teacher=00112233445566778899aabbccddeeff";

    #[test]
    fn only_this_user_can_read_the_page_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let page = LeadingPage::write(folder.path(), LINK).unwrap();
        let text = fs::read_to_string(&page.path).unwrap();
        assert!(text.contains(&format!("content=\"0; url={LINK}\"")), "{text}");
        assert!(text.find("Content-Security-Policy").unwrap() < text.find("refresh").unwrap(), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&page.path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // A file that another user put there is not written into.
        LeadingPage::write(folder.path(), LINK).unwrap_err();
        assert!(!page.path.to_string_lossy().contains("00112233"));
        let path = page.path.clone();
        drop(page);
        assert!(!path.exists());
    }

    #[test]
    fn a_page_goes_although_the_lesson_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let page = LeadingPage::write(folder.path(), LINK).unwrap();
        page.remove_after(Duration::ZERO);
        let gone = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            !page.path.exists()
        });
        assert!(gone);
    }
}
