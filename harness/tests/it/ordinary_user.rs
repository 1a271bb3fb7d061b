//! gpubench as an ordinary user beside the system's administrator: one GPU is one run's, whoever
//! came first; folders are their owner's alone; and what takes rights is waived and says so.
//!
//! The administrator's side needs to be the administrator. Where the tests run as somebody else,
//! both sides are that user.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::resident::Resident;
use crate::support::{Error, Lab, TestResult, program};

/// Nobody in particular.
const NOBODY: u32 = 65_534;
/// Longest wait for something that happens beside.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// Whoever runs the tests.
    Own,
    /// Somebody without rights, if the tests may become that.
    Nobody,
}

/// A device in folders that every user can reach, with a copy of the program.
struct Host {
    device: Resident,
}

fn open_to_all(path: &Path) -> TestResult {
    let meta = std::fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let mode = meta.permissions().mode() | 0o666 | if meta.is_dir() { 0o111 } else { 0 };
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    if meta.is_dir() {
        for entry in std::fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

impl Host {
    fn new(changes: &[(&str, &str)]) -> Result<Self, Error> {
        let lab = Lab::changed("hopper", changes, "")?;
        // Other users may be unable to reach the folder of the build.
        let copy = lab.path("gpubench");
        std::fs::copy(program(), &copy)?;
        let folder = lab.path("");
        let host = Self {
            device: Resident::start_by(&copy, lab)?,
        };
        open_to_all(&folder)?;
        for user in [User::Own, User::Nobody] {
            std::fs::create_dir(host.home(user))?;
            if user == User::Nobody && is_root() {
                std::os::unix::fs::chown(host.home(user), Some(NOBODY), Some(NOBODY))?;
            }
        }
        Ok(host)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.device.lab.path(name)
    }

    fn profile(&self) -> String {
        self.device.lab.arg("short.toml")
    }

    fn home(&self, user: User) -> PathBuf {
        self.path(&format!("home-{user:?}"))
    }

    /// The program with a user's own folders, on the device. The user lets nobody else read what he
    /// makes.
    fn gpubench(&self, user: User, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask 077; exec \"$0\" \"$@\""])
            .arg(self.path("gpubench"))
            .args(args)
            .envs(self.device.environment())
            .env("HOME", self.home(user))
            .env("XDG_STATE_HOME", self.home(user).join("state"))
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("XDG_CACHE_HOME")
            .current_dir(self.home(user))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if user == User::Nobody && is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn rehearse(&self, user: User, mechanism: &str) -> Command {
        let profile = self.profile();
        let more = [
            "plan",
            "--rehearse",
            "--allow-reconfigure",
            "--mechanism",
            mechanism,
        ];
        let mut command = self.gpubench(user, &more);
        command.args(["--profile", &profile]);
        command
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lock file of the device and what it says, once it says anything.
fn holder(host: &Host) -> Result<(PathBuf, String), Error> {
    let folder = host.device.folder()?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        for entry in std::fs::read_dir(&folder)?.flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            if entry.file_name().to_string_lossy().ends_with(".lock") && !text.is_empty() {
                return Ok((entry.path(), text.trim().to_owned()));
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("nobody took the lock".into())
}

/// Waits until a run measures.
fn until_measuring(host: &Host, user: User) -> TestResult {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let events = std::fs::read_to_string(host.home(user).join("out/events.jsonl"));
        if events.is_ok_and(|text| text.contains("\"event\":\"cell-began\"")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("it never measures".into())
}

/// Ends a run as Ctrl-C does and waits for it.
fn interrupt(run: Child) -> Result<Output, Error> {
    let sent = Command::new("kill")
        .args(["-TERM", &run.id().to_string()])
        .status()?;
    assert!(sent.success());
    Ok(run.wait_with_output()?)
}

#[test]
fn whoever_is_second_is_told_who_has_the_gpu_whichever_user_that_is() -> TestResult {
    for (first, second) in [
        (User::Own, User::Nobody),
        (User::Nobody, User::Own),
        (User::Own, User::Own),
        (User::Nobody, User::Nobody),
    ] {
        let host = Host::new(&[])?;
        let profile = host.profile();
        let run = [
            "matrix",
            "--mechanism",
            "time-slicing",
            "--out",
            "out",
            "--profile",
            &profile,
        ];
        let run = host.gpubench(first, &run).spawn()?;
        let (lock, holder) = holder(&host)?;
        assert_eq!(holder, format!("process {}", run.id()));
        // Its owner's mask keeps nobody from reading it, nor from taking it next.
        let mode = std::fs::metadata(lock)?.permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "{first:?}");
        let refused = host.rehearse(second, "mps").output()?;
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(3), "{second:?}: {text}");
        assert!(text.contains(&format!("is in use by {holder}")), "{text}");
        until_measuring(&host, first)?;
        let ended = interrupt(run)?;
        assert_eq!(
            ended.status.code(),
            Some(130),
            "{first:?}: {}",
            said(&ended)
        );
        // What the first one left behind, its lock file too, is in nobody's way.
        let free = host.rehearse(second, "mps").output()?;
        assert_eq!(free.status.code(), Some(0), "{second:?}: {}", said(&free));
    }
    Ok(())
}

#[test]
fn folders_are_their_owner_s_and_rights_are_asked_for() -> TestResult {
    let host = Host::new(&[("version = 1", "version = 1\nprivileged = false")])?;
    let profile = host.profile();
    let args = [
        "plan",
        "--allow-reconfigure",
        "--format",
        "json",
        "--profile",
        &profile,
    ];
    let planned = host.gpubench(User::Nobody, &args).output()?;
    assert_eq!(planned.status.code(), Some(0), "{}", said(&planned));
    let plan: serde_json::Value = serde_json::from_slice(&planned.stdout)?;
    let named = |list: &str, key: &str| -> Vec<String> {
        let rows = plan["plan"][list].as_array().cloned().unwrap_or_default();
        let name = |row: &serde_json::Value| row[key].as_str().unwrap_or_default().to_owned();
        let short = |name: String| name.split('[').next().unwrap_or_default().to_owned();
        rows.iter().map(name).map(short).collect()
    };
    let waived = ["exclusive-process", "mps-memory", "mig", "mig-mps"];
    assert_eq!(named("skips", "mechanism"), waived);
    for able in [
        "time-slicing",
        "mps",
        "mps-quota",
        "mps-static",
        "hami",
        "green-context",
    ] {
        assert!(
            named("mechanisms", "name").contains(&able.to_owned()),
            "{able}"
        );
    }
    for skip in plan["plan"]["skips"].as_array().ok_or("no skips")? {
        let remedy = skip["remedy"].as_str().unwrap_or_default();
        assert!(remedy.starts_with("run as root"), "{skip}");
    }
    // What takes no rights is set up in folders of the user's own, and undone.
    let done = host
        .rehearse(User::Nobody, "mps,mps-static,hami")
        .output()?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let state = std::fs::metadata(host.home(User::Nobody).join("state/gpubench"))?;
    let owner = if is_root() { NOBODY } else { state.uid() };
    assert_eq!(
        (state.permissions().mode() & 0o777, state.uid()),
        (0o700, owner)
    );
    assert_eq!(
        std::fs::read_dir(host.home(User::Nobody).join("state/gpubench"))?.count(),
        0
    );
    // Without a place for a journal nothing is changed.
    let mut homeless = host.rehearse(User::Nobody, "mps");
    homeless.env("XDG_STATE_HOME", "/proc/none");
    let refused = homeless.output()?;
    assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
    assert!(said(&refused).contains("/proc/none"), "{}", said(&refused));
    Ok(())
}

#[test]
fn a_folder_that_one_may_not_write_is_told_before_anything_runs() -> TestResult {
    let host = Host::new(&[])?;
    let profile = host.profile();
    let closed = host.path("closed");
    std::fs::create_dir(&closed)?;
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555))?;
    let file = host.path("file");
    std::fs::write(&file, "not a folder")?;
    // One that cannot be made, one that is there and closed, and what is no folder at all.
    for (out, problem) in [
        (closed.join("out"), "ermission denied"),
        (closed.clone(), "ermission denied"),
        (file.clone(), "File exists"),
    ] {
        let named = out.display().to_string();
        let args = ["matrix", "--mechanism", "mps", "--profile", &profile];
        let mut run = host.gpubench(User::Nobody, &args);
        let refused = run.args(["--out", &named]).output()?;
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(5), "{named}: {text}");
        assert!(text.contains(&named) && text.contains(problem), "{text}");
        let errors = text.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{text}");
        assert!(!text.contains("starting tenants"), "{named}: {text}");
    }
    assert_eq!(std::fs::read_dir(&closed)?.count(), 0);
    assert_eq!(std::fs::read_to_string(&file)?, "not a folder");
    assert!(
        !host.home(User::Nobody).join("state/gpubench").exists(),
        "nothing was set up"
    );
    Ok(())
}

#[test]
fn two_users_without_a_cache_each_start_a_virtual_gpu() -> TestResult {
    let host = Host::new(&[])?;
    std::fs::create_dir(host.path("tmp"))?;
    std::fs::set_permissions(host.path("tmp"), PermissionsExt::from_mode(0o1777))?;
    for user in [User::Own, User::Nobody] {
        let args = ["virtual-gpu", "exec", "--", "true"];
        let done = host
            .gpubench(user, &args)
            .env("TMPDIR", host.path("tmp"))
            .env("HOME", "/proc/none")
            .output()?;
        assert_eq!(done.status.code(), Some(0), "{user:?}: {}", said(&done));
    }
    for entry in std::fs::read_dir(host.path("tmp"))? {
        let meta = entry?.metadata()?;
        assert_eq!(meta.permissions().mode() & 0o777, 0o700);
    }
    Ok(())
}
