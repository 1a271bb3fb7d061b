//! Damaged inputs: files that people write, and arguments of the command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::damage::{changed, damage};
use super::draw::Draw;
use super::verdict::{self, Expected};

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
        // Nobody writes the pipe: its reader would wait as `cat` does.
        if is_pipe(&path) {
            std::fs::remove_file(&path).map_err(|error| error.to_string())?;
        }
        command.args(kind.command);
        Ok(done)
    }
}

fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// A command line with one damaged argument.
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
    paths
        .retain(|path| !path.ends_with("documented-faults.toml") && !path.ends_with("claims.toml"));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(failed);
    paths.iter().map(read).collect()
}
