//! gpubench run by an ordinary user and by root on one host: only one run uses a GPU, folders
//! belong to their user, and mechanisms that need more rights are waived.
//!
//! If root does not run the tests, one user runs both sides.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gpubench_record::RunRecord;
use gpubench_virtual_gpu::mig;

use super::support::fault::signal;
use super::support::guarded::Resident;
use crate::support::{
    Error, Finished, Lab, TestResult, finish, machine_text, program, wait_during, wait_for,
};

/// The user id of the account without rights.
pub(crate) const OTHER: u32 = 65_534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Own,
    /// The account without rights, if root runs the tests; otherwise the same user.
    Other,
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
        // Other users may have no access to the build folder.
        let copy = lab.path("gpubench");
        std::fs::copy(program(), &copy)?;
        let folder = lab.path("");
        let host = Self { device: Resident::start_by(&copy, lab)? };
        open_to_all(&folder)?;
        for user in [User::Own, User::Other] {
            std::fs::create_dir(host.home(user))?;
            if user == User::Other && is_root() {
                std::os::unix::fs::chown(host.home(user), Some(OTHER), Some(OTHER))?;
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

    /// The program with a user's own folders, on the device. The umask denies other users access to
    /// new files.
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
        if user == User::Other && is_root() {
            command.uid(OTHER).gid(OTHER);
        }
        command
    }

    fn rehearse(&self, user: User, mechanism: &str) -> Command {
        let profile = self.profile();
        let more = ["plan", "--rehearse", "--allow-reconfigure", "--mechanism", mechanism];
        let mut command = self.gpubench(user, &more);
        command.args(["--profile", &profile]);
        command
    }
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// The lock file of the device, once a run holds it.
fn held_lock(host: &Host) -> Result<PathBuf, Error> {
    let folder = host.device.folder()?;
    let mut found = None;
    wait_for("a holder of the lock", || {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        found = entries.map(|entry| entry.path()).find(|path| {
            let is_lock = path.extension().is_some_and(|end| end == "lock");
            let inode = path.metadata().map_or(0, |meta| meta.ino());
            let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
            is_lock && locks.contains(&format!(":{inode} "))
        });
        found.is_some()
    })?;
    Ok(found.ok_or("no holder")?)
}

/// Waits until a run measures.
fn wait_for_a_cell(host: &Host, user: User, run: &mut Child) -> TestResult {
    let events = host.home(user).join("out/events.jsonl");
    wait_during(run, "a cell", || {
        let events = std::fs::read_to_string(&events);
        events.is_ok_and(|text| text.contains("\"event\":\"cell-began\""))
    })
}

/// Ends a run by SIGTERM and waits for it.
fn terminate(run: Child) -> Result<Finished, Error> {
    signal(run.id(), "TERM")?;
    Ok(run.wait_with_output()?.into())
}

#[test]
fn a_second_run_is_refused_and_the_holder_is_named() -> TestResult {
    for (first, second) in [
        (User::Own, User::Other),
        (User::Other, User::Own),
        (User::Own, User::Own),
        (User::Other, User::Other),
    ] {
        let host = Host::new(&[])?;
        let profile = host.profile();
        let run = ["matrix", "--mechanism", "time-slicing", "--out", "out", "--profile", &profile];
        let mut run = host.gpubench(first, &run).spawn()?;
        let lock = std::fs::metadata(held_lock(&host)?)?;
        // Despite the umask every user can read, and so take, the lock; no user writes to it.
        assert_eq!(lock.permissions().mode() & 0o777, 0o644, "{first:?}");
        assert_eq!(lock.len(), 0);
        let refused = finish(host.rehearse(second, "mps"))?;
        let stderr = &refused.stderr;
        assert_eq!(refused.code, Some(3), "{second:?}: {stderr}");
        assert!(stderr.contains(&format!("is in use by process {}", run.id())), "{stderr}");
        wait_for_a_cell(&host, first, &mut run)?;
        let ended = terminate(run)?;
        assert_eq!(ended.code, Some(130), "{first:?}: {}", ended.stderr);
        // The files of the first run, including its lock, do not hinder the second one.
        let free = finish(host.rehearse(second, "mps"))?;
        assert_eq!(free.code, Some(0), "{second:?}: {}", free.stderr);
    }
    Ok(())
}

#[test]
fn folders_are_private_and_missing_rights_waive_mechanisms() -> TestResult {
    let host = Host::new(&[("version = 1", "version = 1\nprivileged = false")])?;
    let profile = host.profile();
    let args = ["plan", "--allow-reconfigure", "--format", "json", "--profile", &profile];
    let planned = finish(host.gpubench(User::Other, &args))?.ended_with(0)?;
    let plan: serde_json::Value = serde_json::from_str(&planned.stdout)?;
    let named = |list: &str, key: &str| -> Vec<String> {
        let rows = plan["plan"][list].as_array().cloned().unwrap_or_default();
        let name = |row: &serde_json::Value| row[key].as_str().unwrap_or_default().to_owned();
        let short = |name: String| name.split('[').next().unwrap_or_default().to_owned();
        rows.iter().map(name).map(short).collect()
    };
    let waived = ["exclusive-process", "time-slicing-capped", "mps-memory", "mig", "mig-mps"];
    assert_eq!(named("skips", "mechanism"), waived);
    for available in ["time-slicing", "mps", "mps-quota", "mps-static", "hami", "green-context"] {
        assert!(named("mechanisms", "name").contains(&available.to_owned()), "{available}");
    }
    for skip in plan["plan"]["skips"].as_array().ok_or("no skips")? {
        let remedy = skip["remedy"].as_str().unwrap_or_default();
        assert!(remedy.starts_with("run as root"), "{skip}");
    }
    // Mechanisms that need no rights are set up in the user's folders, and undone.
    finish(host.rehearse(User::Other, "mps,mps-static,hami"))?.ended_with(0)?;
    let state = std::fs::metadata(host.home(User::Other).join("state/gpubench"))?;
    let owner = if is_root() { OTHER } else { state.uid() };
    assert_eq!((state.permissions().mode() & 0o777, state.uid()), (0o700, owner));
    assert_eq!(std::fs::read_dir(host.home(User::Other).join("state/gpubench"))?.count(), 0);
    // Without a folder for the journal the host is not changed.
    let mut homeless = host.rehearse(User::Other, "mps");
    homeless.env("XDG_STATE_HOME", "/proc/none");
    let stderr = finish(homeless)?.ended_with(5)?.stderr;
    assert!(stderr.contains("/proc/none"), "{stderr}");
    Ok(())
}

#[test]
fn an_unwritable_output_folder_is_refused_before_the_run() -> TestResult {
    let host = Host::new(&[])?;
    let profile = host.profile();
    let closed = host.path("closed");
    std::fs::create_dir(&closed)?;
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555))?;
    let file = host.path("file");
    std::fs::write(&file, "not a folder")?;
    // A folder in a read-only folder, a read-only folder, and a file.
    for (out, problem) in [
        (closed.join("out"), "ermission denied"),
        (closed.clone(), "ermission denied"),
        (file.clone(), "File exists"),
    ] {
        let named = out.display().to_string();
        let args = ["matrix", "--mechanism", "mps", "--profile", &profile];
        let mut run = host.gpubench(User::Other, &args);
        run.args(["--out", &named]);
        let text = finish(run)?.ended_with(5)?.stderr;
        assert!(text.contains(&named) && text.contains(problem), "{text}");
        let errors = text.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{text}");
        assert!(!text.contains("starting tenants"), "{named}: {text}");
    }
    assert_eq!(std::fs::read_dir(&closed)?.count(), 0);
    assert_eq!(std::fs::read_to_string(&file)?, "not a folder");
    assert!(!host.home(User::Other).join("state/gpubench").exists(), "a mechanism was set up");
    Ok(())
}

#[test]
fn two_users_without_a_cache_each_start_a_virtual_gpu() -> TestResult {
    let host = Host::new(&[])?;
    std::fs::create_dir(host.path("tmp"))?;
    std::fs::set_permissions(host.path("tmp"), PermissionsExt::from_mode(0o1777))?;
    for user in [User::Own, User::Other] {
        let args = ["virtual-gpu", "exec", "--", "true"];
        let mut command = host.gpubench(user, &args);
        command.env("TMPDIR", host.path("tmp")).env("HOME", "/proc/none");
        let run = finish(command)?;
        assert_eq!(run.code, Some(0), "{user:?}: {}", run.stderr);
    }
    let mut owners = BTreeSet::new();
    for entry in std::fs::read_dir(host.path("tmp"))? {
        let meta = entry?.metadata()?;
        assert_eq!(meta.permissions().mode() & 0o777, 0o700);
        owners.insert(meta.uid());
    }
    assert_eq!(owners.len(), if is_root() { 2 } else { 1 });
    Ok(())
}

// Variables of the user's shell: processes of a run inherit a list alone, and
// `CUDA_VISIBLE_DEVICES` is the set of devices that gpubench chooses from.

const PROFILE: &str = concat!("mechanisms = [\"mps\"]\n", include_str!("data/short.toml"));

/// Variables that change what is measured where a process inherits them.
const PLANTED: [(&str, &str); 5] = [
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"),
    ("CUDA_VISIBLE_DEVICES", "7"),
    ("CUDA_MPS_PIPE_DIRECTORY", "/nowhere"),
    ("LIBCUDA_LOG_LEVEL", "4"),
    ("NVIDIA_TF32_OVERRIDE", "0"),
];

fn retention(record: &RunRecord) -> Option<f64> {
    let mut rows = record.matrix.iter();
    let row = rows.find(|row| row.mechanism == "mps" && row.sub_axis.as_deref() == Some("sm"))?;
    Some(row.retention.as_ref()?.value)
}

#[test]
fn variables_of_the_shell_change_no_measurement() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    finish(lab.matrix("plain", &[]))?.ended_with(0)?;
    let mut planted = lab.matrix("planted", &[]);
    planted.envs(PLANTED);
    let text = finish(planted)?.ended_with(0)?.text();
    for file in ["samples.parquet", "telemetry.parquet", "latencies.hlog"] {
        let read = |out: &str| std::fs::read(lab.path(out).join(file));
        assert!(read("plain")? == read("planted")?, "{file} differs");
    }
    let (plain, planted) = (lab.record("plain")?, lab.record("planted")?);
    assert!(retention(&plain).is_some_and(|value| value < 0.9));
    assert_eq!(retention(&plain), retention(&planted));
    let mut names = PLANTED.map(|(name, _)| name);
    names.sort_unstable();
    let dropped = &planted.provenance.dropped_variables;
    for name in names {
        assert!(dropped.iter().any(|one| one == name), "{name}: {dropped:?}");
    }
    assert!(text.contains("not inherited: CUDA_MPS_ACTIVE_"), "{text}");
    let kept = &plain.provenance.dropped_variables;
    assert!(!kept.iter().any(|one| names.contains(&one.as_str())));
    Ok(())
}

/// `gpubench` with this allotment, on a device that the environment names.
fn allotted(host: &Resident, value: &str, arguments: &[&str]) -> Result<Finished, Error> {
    let mut command = host.gpubench(arguments);
    command.env("CUDA_VISIBLE_DEVICES", value);
    finish(command)
}

#[test]
fn visible_devices_are_an_allotment() -> TestResult {
    let host = Resident::start(Lab::of_machine(machine_text("hopper")?)?)?;
    for hidden in ["", "-1", "9", "GPU-0", "MIG-1"] {
        let text = allotted(&host, hidden, &["plan"])?.ended_with(3)?.stderr;
        let named = format!("no device: CUDA_VISIBLE_DEVICES=\"{hidden}\" leaves none");
        assert!(text.contains(&named), "{text}");
    }
    let device = host.open()?;
    let machine = device.machine();
    let uuid = machine.uuid();
    for value in ["0", "0,9", &uuid, &uuid[..8]] {
        allotted(&host, value, &["plan", "--device", "0"])?.ended_with(0)?;
    }
    // The GPU of an allotted instance is outside of the allotment.
    let mig = machine.mig.as_ref().ok_or("no MIG")?;
    let slices = mig.profile[0].slices;
    let engine = device.transact(|state, _| {
        mig::set_mode(state, machine, true);
        let instance = mig::create_instance(state, machine, 0, None)?;
        mig::create_engine(state, machine, instance, slices)
    })??;
    let instance = device.shared().read(|state| mig::uuid(state, machine, engine))?;
    let refused = allotted(&host, &instance, &["plan", "--device", "0"])?.ended_with(2)?;
    let line = format!(
        "--device {uuid} is not in CUDA_VISIBLE_DEVICES=\"{instance}\" (accepted: {instance})"
    );
    assert!(refused.stderr.contains(&line), "{}", refused.stderr);
    // An instance of an allotted GPU is inside.
    let inside = allotted(&host, &uuid, &["plan", "--device", &instance])?;
    assert!(!inside.stderr.contains("is not in"), "{}", inside.stderr);
    Ok(())
}

/// A service of the system has no home and no folder of its own: the names in the shared folder are
/// free for every user, who could exchange the library that is loaded from there.
#[test]
fn a_folder_that_another_user_made_first_is_not_used() -> TestResult {
    if !is_root() {
        // Only root makes a file of another user.
        return Ok(());
    }
    let lab = Lab::on("hopper")?;
    let shared = lab.path("shared");
    std::fs::create_dir(&shared)?;
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777))?;
    let taken = shared.join("gpubench-0");
    std::fs::create_dir(&taken)?;
    std::fs::set_permissions(&taken, std::fs::Permissions::from_mode(0o777))?;
    std::os::unix::fs::chown(&taken, Some(OTHER), Some(OTHER))?;
    let before = std::fs::metadata(&taken)?.modified()?;
    let mut run = lab.matrix("out", &["--mechanism", "exclusive"]);
    run.env("TMPDIR", &shared);
    for name in ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        run.env_remove(name);
    }
    finish(run)?.ended_with(0)?;
    assert_eq!(std::fs::metadata(&taken)?.modified()?, before, "something was made in it");
    assert_eq!(std::fs::read_dir(&shared)?.count(), 1, "something was left beside it");
    Ok(())
}
