//! Shared by the tests: a folder with a machine file, runs of the binary in it, and their results.

pub mod device;
pub mod fault;
pub mod guarded;

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gpubench::verbs::rescore;
use gpubench_record::{Condition, Json, RunRecord};
use gpubench_virtual_gpu::machine::BUILT_IN;

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type TestResult = Result<(), Error>;

/// The shortest profile with all parts of a run: six blocks of one resource.
pub const SHORT: &str = include_str!("../data/short.toml");

/// How long a test waits for a process before it fails.
pub const LIVENESS: Duration = Duration::from_secs(120);

pub fn machine_text(name: &str) -> Result<&'static str, Error> {
    let found = BUILT_IN.iter().find(|(known, _)| *known == name);
    Ok(found.ok_or_else(|| format!("no built-in machine {name}"))?.1)
}

/// Replaces texts in a machine file. An absent text is an error: the test would check nothing.
pub fn with_changes(machine: &str, changes: &[(&str, &str)]) -> Result<String, Error> {
    let mut text = machine.to_owned();
    for (from, to) in changes {
        if !text.contains(from) {
            return Err(format!("the machine file has no {from:?}").into());
        }
        text = text.replacen(from, to, 1);
    }
    Ok(text)
}

/// `hopper`, which makes contexts and MIG instances at once. In wall time a run of the tests would
/// wait for them most of the time.
pub fn quick_hopper() -> Result<String, Error> {
    let changes = [
        ("context_ns = 120000000", "context_ns = 1000000"),
        ("instance_ms = 1000", "instance_ms = 0"),
    ];
    with_changes(machine_text("hopper")?, &changes)
}

/// A temporary folder with a machine file and a profile, in which the binary runs.
pub struct Lab {
    dir: tempfile::TempDir,
    machine: String,
}

impl Lab {
    /// On a machine that `--device virtual:` accepts by name, with the shortest profile.
    pub fn on(machine: &str) -> Result<Self, Error> {
        let lab = Self { dir: tempfile::tempdir()?, machine: machine.to_owned() };
        lab.write("short.toml", SHORT)?;
        Ok(lab)
    }

    pub fn of_machine(text: &str) -> Result<Self, Error> {
        let mut lab = Self::on("")?;
        lab.write("machine.toml", text)?;
        lab.machine = lab.arg("machine.toml");
        Ok(lab)
    }

    /// On a built-in machine with changes to its file and lines after its end.
    pub fn changed(machine: &str, changes: &[(&str, &str)], end: &str) -> Result<Self, Error> {
        Self::of_machine(&(with_changes(machine_text(machine)?, changes)? + end))
    }

    /// The same folder with another profile.
    pub fn profile(self, text: &str) -> Result<Self, Error> {
        self.write("short.toml", text)?;
        Ok(self)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path in the folder as an argument of a command line.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        std::fs::write(self.path(name), text)
    }

    /// The machine's name or the path of its file.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    pub fn device(&self) -> String {
        format!("virtual:{}", self.machine)
    }

    /// The binary with these arguments, in the folder, with the journal there.
    pub fn gpubench<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = gpubench(args);
        command.current_dir(self.dir.path()).env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// `matrix` with the folder's profile on its machine, into the folder `out`.
    pub fn matrix(&self, out: &str, more: &[&str]) -> Command {
        let mut command = self.gpubench(["matrix", "--device", &self.device()]);
        command
            .args(["--profile", "short.toml", "--out", out])
            // Tests read the tables, not the screen.
            .arg("--full")
            .args(more);
        command
    }

    pub fn record(&self, out: &str) -> Result<RunRecord, Error> {
        record(&self.path(out))
    }
}

/// Runs `matrix` into the folder `name` of `dir`, with a machine file and a profile written beside
/// it.
pub fn run_matrix(
    dir: &Path,
    name: &str,
    machine: &str,
    profile: &str,
    more: &[&str],
) -> Result<Finished, Error> {
    let file = dir.join(format!("{name}.toml"));
    let profile_file = dir.join(format!("{name}-profile.toml"));
    std::fs::write(&file, machine)?;
    std::fs::write(&profile_file, profile)?;
    let mut command = gpubench(["matrix", "--device", &format!("virtual:{}", file.display())]);
    command
        .args(["--profile".as_ref(), profile_file.as_os_str()])
        .args(["--out".as_ref(), dir.join(name).as_os_str()])
        .args(more)
        .env("XDG_STATE_HOME", dir.join("state"));
    finish(command)
}

/// The binary with these arguments: no terminal, no input, output kept.
pub fn gpubench<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(program());
    command
        .args(args)
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_gpubench"))
}

/// The example program that uses the driver API without the harness.
pub fn driver_client() -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent);
    let client = target.ok_or("no target folder")?.join("examples/driver_client");
    if !client.is_file() {
        return Err("the examples of this package are not built".into());
    }
    Ok(client)
}

pub struct Finished {
    /// Exit status; `None` after a signal.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Standard output and standard error.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// An error with both outputs unless the command ended with this status.
    pub fn ended_with(self, code: i32) -> Result<Self, Error> {
        if self.code == Some(code) {
            return Ok(self);
        }
        let (found, text) = (self.code, self.text());
        Err(format!("status {found:?} instead of {code}: {text}").into())
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// Whether campaigns run whole; every change runs a part.
pub fn whole() -> bool {
    std::env::var_os("GPUBENCH_WHOLE").is_some()
}

pub fn finish(mut command: Command) -> Result<Finished, Error> {
    Ok(command.output()?.into())
}

pub fn record(out: &Path) -> Result<RunRecord, Error> {
    Ok(RunRecord::from_json(&std::fs::read(out.join("record.json"))?)?)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Command lines of the processes with this text in their environment.
pub fn processes_with(wanted: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = |entry: std::fs::DirEntry| {
        let read = |file: &str| text(&std::fs::read(entry.path().join(file)).unwrap_or_default());
        let is_found = read("environ").contains(wanted);
        is_found.then(|| read("cmdline").replace('\0', " "))
    };
    entries.filter_map(found).collect()
}

/// Waits for a condition; an error after [`LIVENESS`].
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) -> TestResult {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > LIVENESS {
            return Err(format!("{what}: not within {LIVENESS:?}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits for a condition during a run; an error if the run ends first.
pub fn wait_during(run: &mut Child, what: &str, mut condition: impl FnMut() -> bool) -> TestResult {
    let mut ended = false;
    wait_for(what, || {
        ended = !matches!(run.try_wait(), Ok(None));
        ended || condition()
    })?;
    if ended && !condition() {
        return Err(format!("{what}: the run ended first").into());
    }
    Ok(())
}

/// A command that runs one test of this program in a child process.
pub fn rerun(test: &str) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    Ok(command)
}

// Short runs of `matrix` with additions to the profile.

pub const HOPPER: &str = gpubench_profiles::HOPPER;

/// The shortest profile with these keys and tables.
fn profile(changes: &str) -> Result<String, Error> {
    let mut profile: toml::Table = SHORT.parse()?;
    profile.extend(changes.parse::<toml::Table>()?);
    Ok(profile.to_string())
}

/// Runs `matrix` into the folder `name` with `changes` to the shortest profile. A status that is
/// not in `statuses` is an error.
pub fn matrix(
    dir: &Path,
    name: &str,
    machine: &str,
    changes: &str,
    arguments: &[&str],
    statuses: &[i32],
) -> Result<RunRecord, Error> {
    let done = run_matrix(dir, name, machine, &profile(changes)?, arguments)?;
    if !done.code.is_some_and(|code| statuses.contains(&code)) {
        return Err(done.text().into());
    }
    record(&dir.join(name))
}

// Records of many nights or GPUs: one run is measured, the others are copies of its record with
// facts and rates of their own.

/// A folder with one run, whose record is the pattern of others.
pub struct Nights {
    pub lab: Lab,
    pub run: RunRecord,
}

impl Nights {
    pub fn new() -> Result<Self, Error> {
        let lab = Lab::on("turing")?;
        let more = [
            "--mechanism=exclusive,time-slicing",
            "--axis=compute/sm",
            "--label=node=n0",
            "--label=pool=b",
        ];
        let mut command = lab.matrix("base", &more);
        command.env("GPUBENCH_LABELS", "cluster=a,pool=a");
        finish(command)?.ended_with(0)?;
        let mut run = lab.record("base")?;
        repeat_exactly(&mut run);
        Ok(Self { lab, run })
    }

    pub fn copy(&self, name: &str, change: impl Fn(&mut RunRecord)) -> TestResult {
        self.forge(name, |run| {
            change(run);
            rescore(run, &[])?;
            Ok(())
        })
    }

    /// A copy of the record with changes, and the scores as they were.
    pub fn forge(&self, name: &str, change: impl Fn(&mut RunRecord) -> TestResult) -> TestResult {
        let mut run = self.run.clone();
        change(&mut run)?;
        std::fs::create_dir_all(self.lab.path(name))?;
        let text = serde_json::to_string(&run)?;
        self.lab.write(&format!("{name}/record.json"), &text)?;
        Ok(())
    }

    pub fn run(&self, args: &[&str], code: i32) -> Result<Finished, Error> {
        finish(self.lab.gpubench(args))?.ended_with(code)
    }
}

/// Gives repeated solo cells the rate of the first ones: copies of one difference would be a bias.
fn repeat_exactly(run: &mut RunRecord) {
    let solo = |run: &RunRecord, block| {
        let mut cells = run.cells.iter();
        let found = cells.find(|one| one.cell.condition == Condition::S && one.cell.block == block);
        found.and_then(|one| one.figures.closed_rate_per_s)
    };
    for at in 0..run.cells.len() {
        if run.cells[at].cell.condition != Condition::SAgain {
            continue;
        }
        if let Some(rate) = solo(run, run.cells[at].cell.block) {
            run.cells[at].figures.closed_rate_per_s = Some(rate);
        }
    }
}

pub fn scale(run: &mut RunRecord, condition: Condition, factor: f64) {
    let cells = run.cells.iter_mut();
    for cell in cells.filter(|one| one.cell.condition == condition) {
        cell.figures.closed_rate_per_s = cell.figures.closed_rate_per_s.map(|rate| rate * factor);
    }
}
