//! Damaged inputs: files that people write, and arguments of the command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::damage::{changed, damage};
use super::verdict::Expected;
use super::{Draw, verdict};

const SCENARIO: &str = "\
tenants = 3
service_ms = 10.0
rate_per_s = 12.0
duration_s = 5.0
contention = 0.18
switch_ms = 0.8
seed = 7
[[tenant]]
index = 1
rate_per_s = 4.0
[event]
quantum_ms = 2.0
hami_percent = 30.0
service = { kind = \"erlang\", stages = 3 }
arrivals = { kind = \"bursts\", on_ms = 20.0, off_ms = 50.0 }
";
const DEMAND: &str = "\
gpu = \"A100-80\"
target = 0.75
[[tenant]]
name = \"small\"
count = 12
memory_gb = 6.0
compute = 0.1
";

/// A kind of file: where its text comes from, and the command that reads `f`.
struct Kind {
    name: &'static str,
    texts: Vec<String>,
    command: &'static [&'static str],
}

/// Command lines of which one argument is damaged.
const LINES: [&str; 12] = [
    "simulate --tenants 7 --rate 12 --duration 5 --quantum-ms 2 --replications 3",
    "simulate --loads 0.1..1.2:4 --duration 2 --service erlang:3 --bursts 5:20",
    "simulate --tenant 1:service-ms=4,rate-per-s=3 --duration 2 --hami-percent 20",
    "pack --gpu A100-80 --tenant-memory-gb 6 --tenant-compute 0.1 --tenants 12",
    "pack --memory-gb 24 --tenant-memory-gb 6 --tenant-compute 0.1 --price-per-hour 2",
    "advise --isolation hard --mig yes --config --gpu A30",
    "plan --device virtual:turing --profile smoke --seed 3 --axis compute/sm",
    "plan --device virtual:turing --mechanism time-slicing --rotation 2",
    "plan --device GPU-0 --profile none.toml",
    "report none --format json --mechanism mps",
    "history none --by team",
    "list mechanisms --format json",
];

/// The kinds, and the folder in which their files are damaged.
pub struct Inputs {
    binary: PathBuf,
    folder: PathBuf,
    kinds: Vec<Kind>,
}

impl Inputs {
    /// With the profiles and machine files of the tree.
    pub fn of(binary: &Path, folder: &Path, root: &Path) -> Result<Self, String> {
        let kind = |name, texts, command| Kind { name, texts, command };
        let profiles = texts(&root.join("profiles"))?;
        let machines = texts(&root.join("profiles/machines"))?;
        let plan: &[&str] = &["plan", "--device", "virtual:turing", "--profile", "./f.toml"];
        let on_machine: &[&str] = &["plan", "--profile", "smoke", "--device", "virtual:./f.toml"];
        Ok(Self {
            binary: binary.to_path_buf(),
            folder: folder.to_path_buf(),
            kinds: vec![
                kind("profile", profiles, plan),
                kind("machine file", machines, on_machine),
                kind("scenario", vec![SCENARIO.to_owned()], &["simulate", "--config", "f.toml"]),
                kind("demand", vec![DEMAND.to_owned()], &["pack", "--config", "f.toml"]),
            ],
        })
    }

    /// Damages one input and runs its command. Returns what was done, and what was wrong.
    pub fn case(&self, seed: u64) -> (String, Result<Option<i32>, String>) {
        let mut draw = Draw::new(seed);
        let mut command = Command::new(&self.binary);
        let prepared = if draw.below(4) == 0 {
            Ok(line(&mut command, &mut draw))
        } else {
            self.file(&mut command, &mut draw)
        };
        let done = match prepared {
            Ok(done) => done,
            Err(error) => return (String::new(), Err(error)),
        };
        command.current_dir(&self.folder);
        command.env("XDG_STATE_HOME", self.folder.join("state"));
        let ended = verdict::run(command).and_then(|ended| match ended.problem(Expected::Result) {
            Some(problem) => Err(problem),
            None => Ok(ended.code()),
        });
        let path = self.folder.join("f.toml");
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        (done, ended)
    }

    fn file(&self, command: &mut Command, draw: &mut Draw) -> Result<String, String> {
        let kind = &self.kinds[draw.below(self.kinds.len() as u64) as usize];
        let text = &kind.texts[draw.below(kind.texts.len() as u64) as usize];
        let path = self.folder.join("f.toml");
        std::fs::write(&path, text).map_err(|error| error.to_string())?;
        let mut done = format!("{}: {}", kind.name, damage(&path, draw)?);
        // Most readers refuse at the first damage; a second one follows where numbers go on.
        if path.is_file() && draw.below(3) == 0 {
            done = format!("{done}, {}", damage(&path, draw)?);
        }
        command.args(kind.command);
        Ok(done)
    }
}

fn line(command: &mut Command, draw: &mut Draw) -> String {
    let line = draw.one_of(&LINES);
    let mut words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let at = 1 + draw.below(words.len() as u64 - 1) as usize;
    let (what, mut word) = changed(&words[at], draw);
    // The system accepts neither.
    word.retain(|byte| *byte != 0);
    word.truncate(100_000);
    words[at] = word;
    for word in words {
        use std::os::unix::ffi::OsStringExt;
        command.arg(std::ffi::OsString::from_vec(word));
    }
    format!("`{line}`, word {at}: {what}")
}

/// The TOML files of a folder, without the tables that are no input.
fn texts(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let tables = ["documented-faults.toml", "hosts.toml", "claims.toml"];
    paths.retain(|path| !tables.iter().any(|table| path.ends_with(table)));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(failed);
    paths.iter().map(read).collect()
}

// Damaged records: every verb that reads one names the damage, in seconds and without a crash.

/// Command lines on the record `r`; `whole` is an undamaged one.
const VERBS: [&[&str]; 16] = [
    &["report", "r"],
    &["report", "r", "--full"],
    &["report", "r", "--verify"],
    &["report", "r", "--repair"],
    &["report", "r", "--format", "json"],
    &["report", "r", "--format", "html"],
    &["report", "r", "--format", "csv"],
    &["report", "r", "--format", "openmetrics"],
    &["report", "r", "--anonymize", "copy"],
    &["claims", "r"],
    &["compare", "r", "whole"],
    &["diff", "whole", "--", "r"],
    &["history", "r", "whole"],
    &["outliers", "r", "whole"],
    &["simulate", "--calibrate", "r"],
    &["pack", "--memory-gb", "80", "--from", "r", "--tenant-memory-gb", "2"],
];
/// The file whose absence means that nothing is checked.
const CHECKSUMS: &str = "checksums.b3";
/// The most files of a record that are damaged.
const FILES_MAX: u64 = 3;

/// Undamaged records, and the folder in which copies are damaged.
pub struct Records {
    binary: PathBuf,
    folder: PathBuf,
    sources: Vec<PathBuf>,
}

impl Records {
    /// Makes the records: one of a finished run, and one of a run that was killed.
    pub fn make(binary: &Path, folder: &Path, profile: &Path) -> Result<Self, String> {
        let whole = folder.join("whole");
        let matrix = |out: &Path| {
            let mut command = Command::new(binary);
            let args = ["matrix", "--device", "virtual:turing", "--axis=compute/sm"];
            command.args(args).arg("--mechanism=exclusive,time-slicing");
            command.arg("--profile").arg(profile).arg("--out").arg(out);
            command.env("XDG_STATE_HOME", folder.join("state"));
            command
        };
        let done = matrix(&whole).output().map_err(|error| error.to_string())?;
        if !done.status.success() {
            let errors = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(format!("no record to damage: {}: {errors}", done.status));
        }
        let killed = folder.join("killed");
        let mut run = matrix(&killed);
        run.stdout(std::process::Stdio::null());
        run.stderr(std::process::Stdio::null());
        let mut run = run.spawn().map_err(|error| error.to_string())?;
        let events = killed.join("events.jsonl");
        let has_cell =
            || std::fs::read_to_string(&events).is_ok_and(|text| text.contains("cell-ended"));
        while run.try_wait().map_err(|error| error.to_string())?.is_none() && !has_cell() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // A run that has already ended leaves a finished record, which is damaged as well.
        let _ = run.kill();
        let _ = run.wait();
        Ok(Self {
            binary: binary.to_path_buf(),
            folder: folder.to_path_buf(),
            sources: vec![whole.clone(), whole.clone(), whole, killed],
        })
    }

    /// Damages a copy and reads it with a verb. Returns what was done, and what was wrong.
    pub fn case(&self, seed: u64) -> (String, Result<Option<i32>, String>) {
        let mut draw = Draw::new(seed);
        let at = draw.below(self.sources.len() as u64) as usize;
        let verb = draw.one_of(&VERBS);
        let (source, copy) = (&self.sources[at], self.folder.join("r"));
        let mut done = format!("`{}`", verb.join(" "));
        let result = self.damaged(source, &copy, &mut draw, &mut done);
        let ended = result.and_then(|expected| {
            let mut command = Command::new(&self.binary);
            command.args(verb).current_dir(&self.folder);
            command.env("XDG_STATE_HOME", self.folder.join("state"));
            let ended = verdict::run(command)?;
            match ended.problem(expected) {
                Some(problem) => Err(problem),
                None => Ok(ended.code()),
            }
        });
        // The next case begins without them, and a folder that stays makes it fail.
        for folder in [copy, self.folder.join("copy")] {
            let _ = std::fs::remove_dir_all(folder);
        }
        (done, ended)
    }

    /// Of so many bits that flip in each file of a record without checksums, how many `--verify`
    /// does not name: the share that no row count, schema, range or second source covers.
    pub fn uncovered(&self, seed: u64, count: u64) -> Result<String, String> {
        let copy = self.folder.join("r");
        let verify = || {
            let mut command = Command::new(&self.binary);
            command.args(["report", "r", "--verify"]).current_dir(&self.folder);
            command.env("XDG_STATE_HOME", self.folder.join("state"));
            verdict::run(command)
        };
        let mut text = String::from("unseen without checksums, of flipped bits:");
        for file in copied(&self.sources[0], &copy)? {
            // Nothing reads the page.
            if file.ends_with(CHECKSUMS) || file.ends_with("report.html") {
                continue;
            }
            let (path, mut draw, mut unseen) = (copy.join(&file), Draw::new(seed), 0);
            let _ = std::fs::remove_file(copy.join(CHECKSUMS));
            let whole = std::fs::read(&path).map_err(|error| error.to_string())?;
            for _ in 0..count {
                let mut changed = whole.clone();
                let at = draw.below(whole.len() as u64) as usize;
                changed[at] ^= 1 << draw.below(8);
                std::fs::write(&path, changed).map_err(|error| error.to_string())?;
                unseen += u64::from(verify()?.code() == Some(0));
            }
            std::fs::write(&path, whole).map_err(|error| error.to_string())?;
            text += &format!(" {} {unseen} of {count};", file.display());
        }
        std::fs::remove_dir_all(copy).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    }

    fn damaged(
        &self,
        source: &Path,
        copy: &Path,
        draw: &mut Draw,
        done: &mut String,
    ) -> Result<Expected, String> {
        let files = copied(source, copy)?;
        // A decoder also has to cope with what no checksum covers.
        let unchecked = draw.below(3) == 0;
        if unchecked {
            let _ = std::fs::remove_file(copy.join(CHECKSUMS));
            done.push_str(", without checksums");
        }
        let mut expected = Expected::Named;
        for _ in 0..=draw.below(FILES_MAX) {
            let file = &files[draw.below(files.len() as u64) as usize];
            let path = copy.join(file);
            if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            let what = damage(&path, draw)?;
            done.push_str(&format!(", {}: {what}", file.display()));
            // Without checksums a changed figure is a figure.
            if file.ends_with(CHECKSUMS) && !path.exists() {
                expected = Expected::Result;
            }
        }
        if unchecked || !source.join(CHECKSUMS).exists() {
            expected = Expected::Result;
        }
        Ok(expected)
    }
}

/// Copies a record. Returns its files, relative to it.
fn copied(source: &Path, copy: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", source.display());
    let _ = std::fs::remove_dir_all(copy);
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        std::fs::create_dir_all(copy.join(&folder)).map_err(failed)?;
        for entry in std::fs::read_dir(source.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(name);
            } else {
                std::fs::copy(entry.path(), copy.join(&name)).map_err(failed)?;
                files.push(name);
            }
        }
    }
    files.sort();
    Ok(files)
}
