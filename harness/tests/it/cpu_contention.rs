//! Another process on the victim's core: on the wall clock, the device is not blamed for it.
//!
//! The native cells of a device without disturbance are repeated (N and N'), so their ratio is 1.
//! The host decides how much CPU time is really lost, so each check holds at any loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpubench_record::{CellResult, Gate, GateState, OutcomeKind, RunRecord};
use gpubench_workloads::clock::thread::Cores;

use crate::support::{Error, Lab, TestResult, finish, program};

/// Native cells alone, with closed loops that hold many turns of the kernel's scheduler.
const NATIVE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "native cells on the wall clock"
decides = false
mechanisms = ["exclusive"]
axes = ["compute/sm"]
device_time = "20s"
blocks = { min = 6, max = 6 }
cell = { warmup = "20ms", closed = "300ms", gap = "5ms", open = "40ms" }
cell_min = { warmup = "20ms", closed = "300ms", gap = "5ms", open = "40ms" }
"#;

/// The largest bound of a cell that counts.
const BOUND_MAX: f64 = 0.10;

/// Threads that take CPU time from the cores of the victim until they are dropped.
struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// One on every core but the first, where the victim has none of its threads: each is busy for
    /// `busy` of every 10 ms.
    fn start(busy: Duration) -> Result<Self, Error> {
        const PERIOD: Duration = Duration::from_millis(10);
        let allowed = Cores::of_this_thread()?.list();
        assert!(allowed.len() >= 2, "this test needs two cores: {allowed:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let hog = |cpu: u32| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                assert_eq!(Cores::only(cpu).apply(), Ok(()));
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < busy {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
                }
            })
        };
        let threads = allowed[1..].iter().map(|cpu| hog(*cpu)).collect();
        Ok(Self { stop, threads })
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok(), "a hog panicked");
        }
    }
}

fn beside_hogs(profile: &str, busy: Duration) -> Result<RunRecord, Error> {
    let lab = Lab::on("hopper")?.profile(profile)?;
    let hogs = Hogs::start(busy)?;
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    let matrix = ["matrix", "--profile", "short.toml", "--out", "out"];
    command.arg(program()).args(matrix);
    let run = finish(command)?;
    drop(hogs);
    assert!(matches!(run.code, Some(0 | 3)), "{:?}: {}", run.code, run.text());
    let record = lab.record("out")?;
    assert_eq!(record.provenance.clock, "wall");
    Ok(record)
}

/// The bound of a cell: infinite where gaps filled the closed loop.
fn bound(cell: &CellResult) -> f64 {
    cell.figures.closed_rate_loss_max_ln.unwrap_or(f64::INFINITY)
}

/// The gate fails exactly above its limit, and excludes the cell.
fn gates_follow_the_bound(record: &RunRecord) {
    for cell in &record.cells {
        let gate = cell.gate(&Gate::CpuGap).expect("the gate was evaluated");
        let fails = bound(cell) > BOUND_MAX;
        let expected = if fails { GateState::Failed } else { GateState::Passed };
        assert_eq!(gate.state, expected, "{}", gate.detail);
        let counts = cell.outcome.outcome == OutcomeKind::Measured;
        assert!(!(fails && counts), "{}: {:?}", cell.cell.id, cell.outcome);
    }
}

#[test]
fn a_process_that_takes_half_of_the_time_excludes_the_cell() -> TestResult {
    let record = beside_hogs(NATIVE, Duration::from_millis(10))?;
    assert_eq!(record.cells.len(), 12);
    gates_follow_the_bound(&record);
    let excluded = record.cells.iter().filter(|cell| bound(cell) > BOUND_MAX);
    assert!(excluded.count() >= 6, "{:#?}", record.cells);
    let row = record.matrix.first().ok_or("no row")?;
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:#?}");
    let warnings = format!("{:?} {:?}", row.outcome.reason, row.warnings);
    assert!(warnings.contains("cpu-gap: "), "{warnings}");
    Ok(())
}

/// The native cells, and a mechanism whose level follows from the machine file: under time-slicing
/// a victim with requests of 1 ms has less than half of its rate, and nothing protects it.
fn with_a_neighbour() -> String {
    NATIVE.replace(r#"["exclusive"]"#, r#"["exclusive", "time-slicing"]"#).replace("20s", "60s")
}

/// The CPU time that another process takes, in percent of each core: `GPUBENCH_CPU_TAKEN`, such as
/// `2 5 20`; without it 5.
fn taken_pct() -> Result<Vec<u64>, Error> {
    let text = std::env::var("GPUBENCH_CPU_TAKEN").unwrap_or_else(|_| "5".to_owned());
    Ok(text.split(' ').map(str::parse).collect::<Result<_, _>>()?)
}

#[test]
#[expect(clippy::print_stdout, reason = "the rows are the result of the long run")]
fn no_decided_row_is_wrong_beside_another_process() -> TestResult {
    for pct in taken_pct()? {
        let record = beside_hogs(&with_a_neighbour(), Duration::from_micros(100 * pct))?;
        gates_follow_the_bound(&record);
        // A victim that loses a part of a core notices at least a part of that.
        let mean = record.cells.iter().map(bound).sum::<f64>() / record.cells.len() as f64;
        assert!(mean > 0.001 * pct as f64, "the bounds are {mean} on average");
        for row in &record.matrix {
            // Native against native, solo against native: nothing but the other process acts.
            let native = row.retention.as_ref().filter(|_| row.mechanism == "exclusive");
            let ratios = [("N'/N", native), ("S/N", row.efficiency.as_ref())];
            for (what, found) in ratios.into_iter().filter_map(|(what, f)| Some((what, f?))) {
                println!("{pct} %: {what} {:.4} [{:.4}, {:.4}]", found.value, found.lo, found.hi);
                // By chance alone one interval in twenty does not hold the ratio, and next to none
                // at twice the width.
                let half = (found.hi - found.lo) / 2.0;
                let is_right = found.lo - half <= 1.0 && 1.0 <= found.hi + half;
                assert!(is_right, "{pct} %: {what}: {row:#?}");
            }
            let (level, why) = (row.level.as_deref(), &row.outcome.reason);
            println!("{pct} %: {}: {level:?} {:?} {why:?}", row.mechanism, row.retention);
            let decided = level.filter(|level| !level.contains(".."));
            let is_right = row.mechanism != "time-slicing" || decided.is_none_or(|l| l == "L0");
            assert!(is_right, "{pct} %: {row:#?}");
        }
    }
    Ok(())
}

#[test]
fn a_run_says_before_its_first_cell_which_threads_share_cores() -> TestResult {
    let lab = Lab::on("hopper")?.profile(NATIVE)?;
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    command.arg(program());
    command.args(["plan", "--profile", "short.toml"]);
    // The process inherits the cores of this thread.
    let all = Cores::of_this_thread()?;
    let more = all.list().into_iter().skip(2);
    more.fold(all, Cores::without).apply()?;
    let run = finish(command);
    all.apply()?;
    let run = run?.ended_with(0)?;
    let text = "note: 2 cores for 2 tenants: the victim's reaper shares core ";
    assert!(run.stdout.contains(text), "{}", run.text());
    // Virtual time passes without cores.
    let plan = ["plan", "--device", "virtual:hopper", "--profile", "short.toml"];
    let run = finish(lab.gpubench(plan))?.ended_with(0)?;
    assert!(!run.stdout.contains("shares core"), "{}", run.text());
    Ok(())
}
