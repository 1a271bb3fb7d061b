//! Which aggressor moves which victim on the virtual GPU, as a matrix: each one its own resource
//! and nobody else's while kernels run side by side, and all of an SM while they take turns.
//!
//! Victim and aggressor have a context each, and both contexts are clients of one MPS server, or of
//! none. Side by side, aggressors have one block on each SM: a grid that fills the device takes
//! every slot for blocks too, which has an aggressor of its own. There is no noise, so that the
//! interval of a figure is the figure.
//!
//! Left out are loads that mix resources or lean on the same one as another here (`inference`,
//! `launch`, `dram-read`, `dram-write`, `l2-thrash`, `pcie-d2h`, `pcie-both`), what takes memory
//! and no time (`reserve`, `memory-hog`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpubench::device::VirtualGpu;
use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, Driver, Stream, WaitMode};
use gpubench_record::WorkloadSpec;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::{ENV, TimeMode};
use gpubench_workloads::clock::{Clock, Seat, Time};
use gpubench_workloads::load::{self, Gpu, Prepared};
use serde_json::{Value, json};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Marks the program that is run again; says how.
const AGAIN: &str = "GPUBENCH_TEST_CONFUSION";

const SHARE: f64 = 3.0 / 7.0;
const SERVICE_NS: u64 = 500_000;
/// Requests that an aggressor has on the device before it waits for them.
const DEPTH: usize = 4;

/// A victim that keeps less than this part of its rate was moved.
const MOVED: f64 = 0.96;

/// A victim that keeps at least this part was left alone.
const ALONE: f64 = 0.995;

/// A victim that uses a resource in passing keeps at least this part beside who exhausts it.
const PASSING: f64 = 0.75;

const SM_VICTIMS: &[&str] = &["compute", "fp64", "int", "tensor", "shared", "l1", "issue"];

const VICTIMS: &[&str] = &[
    "compute",
    "fp64",
    "int",
    "tensor",
    "shared",
    "l1",
    "issue",
    "stream",
    "l2",
    "tlb",
    "atomic",
    "launch-sync",
    "alloc",
    "pcie",
];

/// An aggressor side by side with victims.
struct Row {
    aggressor: &'static str,
    /// Victims that live on its resource.
    moves: &'static [&'static str],
    /// Victims that use a little of it.
    passing: &'static [&'static str],
}

const fn row(
    aggressor: &'static str,
    moves: &'static [&'static str],
    passing: &'static [&'static str],
) -> Row {
    Row {
        aggressor,
        moves,
        passing,
    }
}

const SIDE_BY_SIDE: &[Row] = &[
    // What fills the issue slots are additions of both kinds.
    row("fma-hog", &["compute", "issue"], &[]),
    // Whatever runs has blocks; few where it is the memory that is slow.
    row(
        "block-slots",
        SM_VICTIMS,
        &["stream", "l2", "tlb", "atomic", "pcie"],
    ),
    row("fp64-hog", &["fp64"], &[]),
    row("tensor-hog", &["tensor"], &[]),
    // Everybody counts loops and addresses.
    row(
        "int-hog",
        &["int", "issue"],
        &[
            "compute", "tensor", "shared", "l1", "stream", "l2", "atomic",
        ],
    ),
    // One store, one path to it.
    row("shared-hog", &["shared", "l1"], &[]),
    row("l1-hog", &["shared", "l1"], &[]),
    row("issue-hog", &["issue"], &["compute", "int"]),
    row("launch-flood", &["launch-sync"], &[]),
    row("alloc-storm", &["alloc"], &[]),
    row("context-storm", &["alloc"], &[]),
    row("module-storm", &["alloc"], &[]),
    row("pin-storm", &["alloc"], &[]),
    row("dram-copy", &["stream"], &[]),
    row("tlb-stride", &["tlb"], &[]),
    // What comes from DRAM comes through L2, and atomics are carried out there.
    row("l2-stream", &["l2"], &["stream", "tlb", "atomic"]),
    row("atomics", &["atomic"], &[]),
    row("pcie-h2d", &["pcie"], &[]),
];

const SM_AGGRESSORS: &[&str] = &[
    "fma-hog",
    "block-slots",
    "fp64-hog",
    "int-hog",
    "tensor-hog",
    "shared-hog",
    "l1-hog",
    "issue-hog",
];

#[test]
fn side_by_side_each_aggressor_moves_the_victims_of_its_resource_alone() -> Result<(), Error> {
    if std::env::var_os(AGAIN).is_some() {
        let aggressors: Vec<&str> = SIDE_BY_SIDE.iter().map(|row| row.aggressor).collect();
        return again(&aggressors, VICTIMS, true);
    }
    let test = "side_by_side_each_aggressor_moves_the_victims_of_its_resource_alone";
    let matrix = run_again(test, true)?;
    let mut wrong = Vec::new();
    for row in SIDE_BY_SIDE {
        for victim in VICTIMS {
            let kept = matrix.kept(row.aggressor, victim)?;
            let expected = if row.moves.contains(victim) {
                0.0..MOVED
            } else if row.passing.contains(victim) {
                PASSING..1.001
            } else {
                ALONE..1.001
            };
            if !expected.contains(&kept) {
                let aggressor = row.aggressor;
                wrong.push(format!(
                    "{victim} keeps {kept:.4} beside {aggressor}, not {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", matrix.table(), wrong.join("\n"));
    Ok(())
}

#[test]
fn in_turns_every_aggressor_of_the_sms_moves_every_victim_of_theirs() -> Result<(), Error> {
    if std::env::var_os(AGAIN).is_some() {
        return again(SM_AGGRESSORS, SM_VICTIMS, false);
    }
    let test = "in_turns_every_aggressor_of_the_sms_moves_every_victim_of_theirs";
    let matrix = run_again(test, false)?;
    for aggressor in SM_AGGRESSORS {
        for victim in SM_VICTIMS {
            // The aggressor has work all the time, and the victim's turn ends with its request:
            // less than half.
            let kept = matrix.kept(aggressor, victim)?;
            let table = || format!("{victim} beside {aggressor}: {kept:.4}\n{}", matrix.table());
            assert!((0.1..0.5).contains(&kept), "{}", table());
        }
    }
    Ok(())
}

/// What each victim keeps of its rate, by aggressor.
struct Matrix(BTreeMap<(String, String), f64>);

impl Matrix {
    fn kept(&self, aggressor: &str, victim: &str) -> Result<f64, Error> {
        let kept = self.0.get(&(aggressor.to_owned(), victim.to_owned()));
        Ok(*kept.ok_or_else(|| format!("no cell for {victim} beside {aggressor}"))?)
    }

    fn table(&self) -> String {
        let aggressors: Vec<&str> = SIDE_BY_SIDE.iter().map(|row| row.aggressor).collect();
        let victims: Vec<&&str> = VICTIMS
            .iter()
            .filter(|name| self.0.keys().any(|(_, victim)| victim == **name))
            .collect();
        let mut out = format!("{:14}", "");
        for victim in &victims {
            let _ = write!(out, "{victim:>12}");
        }
        for aggressor in aggressors {
            if self.kept(aggressor, victims[0]).is_err() {
                continue;
            }
            let _ = write!(out, "\n{aggressor:14}");
            for victim in &victims {
                let kept = self.kept(aggressor, victim).unwrap_or(f64::NAN);
                let _ = write!(out, "{kept:12.3}");
            }
        }
        out
    }
}

/// Runs this program again on a virtual GPU of its own, beside an MPS daemon or without one.
fn run_again(test: &str, mps: bool) -> Result<Matrix, Error> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("quiet.toml");
    std::fs::write(&file, quiet_machine()?)?;
    let gpu = VirtualGpu::start(&file.to_string_lossy(), TimeMode::Virtual, 1)?;
    let around = |command: &mut Command| {
        command
            .envs(gpu.environment())
            .env("CUDA_MPS_PIPE_DIRECTORY", folder.path().join("pipe"))
            .env("CUDA_MPS_LOG_DIRECTORY", folder.path().join("log"))
            .stdin(Stdio::null());
    };
    let control = |args: &[&str], input: Stdio| -> Result<(), Error> {
        // The stand-in is the binary under another name.
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubench"));
        around(&mut command);
        command.arg0("nvidia-cuda-mps-control").args(args);
        let done = command.stdin(input).stdout(Stdio::null()).status()?;
        assert!(done.success(), "{args:?}: {done}");
        Ok(())
    };
    if mps {
        control(&["-d"], Stdio::null())?;
    }
    let mut command = Command::new(std::env::current_exe()?);
    around(&mut command);
    let done = command
        .args(["--exact", test, "--nocapture"])
        .env(AGAIN, "1")
        .output()?;
    if mps {
        let quit = folder.path().join("quit");
        std::fs::write(&quit, "quit\n")?;
        control(&[], std::fs::File::open(&quit)?.into())?;
    }
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let complained = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}\n{complained}");
    let cells = said.lines().filter(|line| line.starts_with('{'));
    let cells = cells.map(|line| {
        let value: Value = serde_json::from_str(line)?;
        let name = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let kept = value["kept"].as_f64().ok_or("no figure")?;
        Ok(((name("aggressor"), name("victim")), kept))
    });
    let matrix = Matrix(cells.collect::<Result<_, Error>>()?);
    writeln!(std::io::stdout(), "\n{}", matrix.table())?;
    Ok(matrix)
}

/// The default machine without noise, and with power to spare: its cap is a resource of everybody.
fn quiet_machine() -> Result<String, Error> {
    let text = include_str!("../../profiles/machines/turing.toml");
    let mut machine: toml::Table = text.parse()?;
    for (table, key, value) in [
        ("noise", "request", 0.0),
        ("noise", "epoch", 0.0),
        ("noise", "session", 0.0),
        ("power", "cap_w", 500.0),
    ] {
        let table = machine.get_mut(table).and_then(toml::Value::as_table_mut);
        let table = table.ok_or("no such table")?;
        table.insert(key.to_owned(), value.into());
    }
    Ok(machine.to_string())
}

/// The program that is run again: every victim alone, then beside every aggressor.
fn again(aggressors: &[&str], victims: &[&str], side_by_side: bool) -> Result<(), Error> {
    let clock = Clock::find()?;
    assert!(clock.is_virtual(), "the virtual device is not found");
    let announcing = Device::open(Path::new(&std::env::var(ENV)?))?;
    announcing.expect(0)?;
    let seat = Seat::take(&clock, 0)?;
    let gpu = open()?;
    let mut alone = Vec::new();
    for name in victims {
        let workload = load::find(name)?;
        let found = load::calibrate(workload, &gpu, &clock, SHARE, SERVICE_NS)?;
        let mut prepared = workload.setup(&gpu, &found.spec)?;
        let rate_per_s = rate_per_s(&gpu, &mut *prepared, &clock, span_ns(side_by_side, ""))?;
        alone.push((*name, prepared, rate_per_s));
    }
    let mut specs = Vec::new();
    for name in aggressors {
        let found = load::calibrate(load::find(name)?, &gpu, &clock, 1.0, SERVICE_NS)?;
        let mut spec = found.spec;
        if side_by_side
            && *name != "block-slots"
            && let Some(blocks) = spec.params.get_mut("blocks")
        {
            *blocks = gpu.props.sm_count.into();
        }
        specs.push((*name, spec));
    }
    seat.leave()?;
    for (aggressor, spec) in specs {
        // Both are announced before either comes: the clock waits for them.
        announcing.expect(0)?;
        announcing.expect(1)?;
        let noisy = Neighbour::start(spec, clock.clone())?;
        let seat = Seat::take(&clock, 0)?;
        while !noisy.leans.load(Ordering::SeqCst) && !noisy.thread.is_finished() {
            clock.sleep_until(clock.now_ns() + 1_000_000)?;
        }
        for (victim, prepared, alone_per_s) in &mut alone {
            let span_ns = span_ns(side_by_side, aggressor);
            let found = rate_per_s(&gpu, &mut **prepared, &clock, span_ns)?;
            let kept = found / *alone_per_s;
            let line = json!({ "aggressor": aggressor, "victim": victim, "kept": kept });
            // The reader skips whatever the test harness prints before it on the line.
            writeln!(std::io::stdout(), "\n{line}")?;
        }
        noisy.enough.store(true, Ordering::SeqCst);
        seat.leave()?;
        noisy
            .thread
            .join()
            .map_err(|_| "the aggressor panicked")??;
    }
    announcing.expect(0)?;
    let seat = Seat::take(&clock, 0)?;
    drop(alone);
    drop(gpu);
    Ok(seat.leave()?)
}

/// How long one victim is watched: many requests, many turns, or a few contexts.
fn span_ns(side_by_side: bool, aggressor: &str) -> u64 {
    match aggressor {
        "context-storm" => 170_000_000,
        _ if side_by_side => 15_000_000,
        _ => 80_000_000,
    }
}

/// A context of its own on the device of the environment.
fn open() -> Result<Gpu, Error> {
    let device = Driver::load()?.device(0)?;
    let context = Context::create(&device, WaitMode::BlockingSync)?;
    Ok(Gpu {
        kernels: KernelSet::new(&context),
        stream: Stream::new(&context)?,
        props: device.props()?,
        spin: false,
        context,
    })
}

/// Requests a second, one after the other.
fn rate_per_s(
    gpu: &Gpu,
    prepared: &mut dyn Prepared,
    clock: &Clock,
    span_ns: u64,
) -> Result<f64, Error> {
    for _ in 0..prepared.cycle() {
        prepared.step(gpu)?;
    }
    gpu.stream.synchronize()?;
    let (from_ns, mut now_ns, mut requests) = (clock.now_ns(), 0, 0);
    while now_ns < from_ns + span_ns {
        prepared.step(gpu)?;
        gpu.stream.synchronize()?;
        requests += 1;
        now_ns = clock.now_ns();
    }
    Ok(f64::from(requests) * 1e9 / (now_ns - from_ns) as f64)
}

/// An aggressor in a thread of its own.
struct Neighbour {
    leans: Arc<AtomicBool>,
    enough: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(), Error>>,
}

impl Neighbour {
    fn start(spec: WorkloadSpec, clock: Clock) -> Result<Self, Error> {
        let (leans, enough) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (seen, stop) = (Arc::clone(&leans), Arc::clone(&enough));
        let thread = std::thread::Builder::new()
            .name("aggressor".to_owned())
            .spawn(move || lean(&spec, &clock, &seen, &stop))?;
        Ok(Self {
            leans,
            enough,
            thread,
        })
    }
}

fn lean(
    spec: &WorkloadSpec,
    clock: &Clock,
    leans: &AtomicBool,
    enough: &AtomicBool,
) -> Result<(), Error> {
    let seat = Seat::take(clock, 1)?;
    let gpu = open()?;
    let mut prepared = load::find(&spec.name)?.setup(&gpu, spec)?;
    for _ in 0..prepared.cycle() {
        prepared.step(&gpu)?;
    }
    gpu.stream.synchronize()?;
    leans.store(true, Ordering::SeqCst);
    while !enough.load(Ordering::SeqCst) {
        for _ in 0..DEPTH {
            prepared.step(&gpu)?;
        }
        gpu.stream.synchronize()?;
    }
    drop(prepared);
    drop(gpu);
    Ok(seat.leave()?)
}
