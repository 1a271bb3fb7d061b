//! A campaign of kills: runs of gpubench on virtual devices whose coordinator, guard process,
//! tenants or daemon get signals at random instants. After each, 3 s later nothing of the run may
//! be left, its record renders, and the next run starts.
//!
//! A run that died together with its guard process is the journal's case and is counted apart: the
//! next run undoes what is left.

mod campaign;
mod damage;
mod host;
mod inputs;
mod verdict;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use host::{Host, end, signal};

use super::tree::CiError;

pub use campaign::{Campaign, damaged};

/// A profile that takes a few seconds.
const PROFILE: &str = "harness/tests/it/data/short.toml";
/// By when nothing of a dead run is left.
const GONE: Duration = Duration::from_secs(3);
/// The latest instant of a signal, and of the end after it.
const SPAN_MS: u64 = 4000;
const AFTER_MS: u64 = 1500;
/// Longest wait for a run to end after it was killed.
const END: Duration = Duration::from_secs(20);
/// Campaigns at the same time.
const JOBS: u64 = 2;

const MECHANISMS: [&str; 6] =
    ["mps", "time-slicing", "mig", "mig-mps", "mps-memory", "exclusive-process"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Coordinator,
    Group,
    Guard,
    Both,
    Tenant,
    Daemon,
}

const TARGETS: [Target; 6] = [
    Target::Coordinator,
    Target::Group,
    Target::Guard,
    Target::Both,
    Target::Tenant,
    Target::Daemon,
];

const SIGNALS: [&str; 6] = ["KILL", "TERM", "INT", "HUP", "QUIT", "STOP"];

#[derive(Debug)]
struct Case {
    seed: u64,
    mechanism: &'static str,
    target: Target,
    signal: &'static str,
    at_ms: u64,
    /// How long a run that survived goes on before its coordinator is killed.
    after_ms: u64,
}

impl Case {
    fn drawn(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        Self {
            seed,
            mechanism: draw.one_of(&MECHANISMS),
            target: draw.one_of(&TARGETS),
            signal: draw.one_of(&SIGNALS),
            at_ms: draw.below(SPAN_MS),
            after_ms: draw.below(AFTER_MS),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    cases: u64,
    journals: u64,
    failures: Vec<String>,
}

pub fn run(binary: &Path, root: &Path, minutes: u64, seed: u64) -> Result<String, CiError> {
    let begin = Instant::now();
    let limit = Duration::from_secs(60 * minutes);
    let (next, counts) = (AtomicU64::new(seed), Mutex::new(Counts::default()));
    let work = || -> Result<(), CiError> {
        let host = Host::start(binary, root)?;
        while begin.elapsed() < limit {
            let case = Case::drawn(next.fetch_add(1, Ordering::Relaxed));
            let ended = one(&host, &case);
            let mut counts = lock(&counts);
            counts.cases += 1;
            match ended {
                Ok(journal) => counts.journals += u64::from(journal),
                Err(problem) => {
                    let failure = format!("seed {}: {case:?}: {problem}", case.seed);
                    eprintln!("{failure}");
                    counts.failures.push(failure);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..JOBS).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended
            .map(|one| one.unwrap_or_else(|_| Err(CiError::Found("a worker panicked".to_owned()))))
            .collect::<Result<Vec<()>, CiError>>()
    })?;
    report(&lock(&counts), seed)
}

fn lock(counts: &Mutex<Counts>) -> std::sync::MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn report(counts: &Counts, seed: u64) -> Result<String, CiError> {
    let Counts { cases, journals, failures } = counts;
    let mut text = format!(
        "{cases} cases from seed {seed}, {journals} of them without a guard process, {} failures",
        failures.len()
    );
    if failures.is_empty() {
        return Ok(text);
    }
    for failure in failures {
        let _ = write!(text, "\n  {failure}");
    }
    Err(CiError::Found(text))
}

/// Runs one case. Returns whether the run died together with its guard process.
fn one(host: &Host, case: &Case) -> Result<bool, String> {
    let mut run = host.matrix(case.mechanism)?;
    std::thread::sleep(Duration::from_millis(case.at_ms));
    let acted = act(host, case, &mut run);
    std::thread::sleep(Duration::from_millis(case.after_ms));
    let is_journals = case.target == Target::Both;
    if is_journals {
        // The guard process is dead already; the stopped coordinator starts no other.
        signal(run.id(), "KILL");
    }
    end(&mut run, END)?;
    acted?;
    if is_journals {
        host.next_after_journal(case.mechanism)?;
    }
    host.is_clean(GONE)?;
    host.record_renders()?;
    let next = host.next(case.mechanism)?;
    // Processes of dead runs can be those of another worker's case.
    if next.contains("undone:") {
        return Err(format!("the next run found something to undo: {next}"));
    }
    host.is_clean(GONE)?;
    Ok(is_journals)
}

/// Sends the signal of a case. A run that has ended, or has no such process yet, gets none.
fn act(host: &Host, case: &Case, run: &mut Child) -> Result<(), String> {
    let ended = |run: &mut Child| match run.try_wait() {
        Ok(status) => Ok(status.is_some()),
        Err(error) => Err(error.to_string()),
    };
    if ended(run)? {
        return Ok(());
    }
    let coordinator = run.id();
    let pids = match case.target {
        Target::Coordinator => vec![coordinator],
        Target::Group => {
            host::signal_group(coordinator, case.signal);
            vec![coordinator]
        }
        Target::Guard => host.guard_of(coordinator),
        Target::Tenant => host.processes("__tenant"),
        Target::Daemon => host.processes("nvidia-cuda-mps"),
        Target::Both => {
            signal(coordinator, "STOP");
            for guard in host.guard_of(coordinator) {
                signal(guard, "KILL");
            }
            return Ok(());
        }
    };
    let Some(&pid) = pids.first() else { return Ok(()) };
    signal(pid, case.signal);
    if case.signal == "STOP" {
        std::thread::sleep(Duration::from_millis(500));
        if case.target == Target::Coordinator && ended(run)? {
            return Err("a stopped coordinator ended".to_owned());
        }
        signal(pid, "CONT");
        host::signal_group(coordinator, "CONT");
    }
    Ok(())
}

// Numbers from a seed, the same on every host (splitmix64 of Steele, Lea and Flood).

pub struct Draw(u64);

impl Draw {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is not 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn a_seed_gives_one_sequence_that_covers_all() {
        let numbers = |seed| {
            let mut draw = Draw::new(seed);
            (0..100).map(|_| draw.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!((0..6).all(|number| numbers(7).contains(&number)));
    }
}
