//! The matrix of aggressors and victims on the virtual GPU. When kernels run concurrently, an
//! aggressor slows only the victims of its own resource. When kernels are time-sliced, an aggressor
//! of the SMs slows every victim of the SMs.
//!
//! Each victim and each aggressor is a process with its own context. Concurrent aggressors run one
//! block on each SM, because a grid that fills the device also takes all block slots (`block-slots`
//! tests those). Retention is an interval over blocks, with 95 % confidence for a whole matrix.
//!
//! The matrix has every aggressor of the catalogue. It leaves out victims that mix resources
//! (`inference`, `launch`), and `reserve`, which has no rate.

mod tenants;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gpubench_catalogue::{axis, workload};
use gpubench_host::device::VirtualGpu;
use gpubench_record::Role;
use gpubench_stats::{Confidence, Estimate, two_sample};
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::TimeMode;
use tenants::{BLOCKS, Cell, Tenant};

use crate::support::{Error, TestResult};

/// A victim is slowed when the whole interval of its retention lies below 1 - `MARGIN`, and
/// unaffected when the whole interval lies within `MARGIN` of 1.
const MARGIN: f64 = 0.02;

/// Retention that a victim exceeds when it makes little use of the exhausted resource. It shares
/// its SM with the aggressor, and the SM with less left over decides.
const LITTLE_USE: f64 = 0.55;

/// Victims that share only power with `power-virus`.
const POWERED: &[&str] = &["fp64", "int", "shared", "l2"];

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
fn concurrent_aggressors_slow_only_the_victims_of_their_resource() -> TestResult {
    let test = "confusion::concurrent_aggressors_slow_only_the_victims_of_their_resource";
    let aggressors: Vec<&str> = CONCURRENT.iter().map(|row| row.aggressor).collect();
    let Some(matrix) = run(test, &aggressors, VICTIMS, Sharing::Concurrent)? else { return Ok(()) };
    let mut wrong = Vec::new();
    for row in CONCURRENT {
        for victim in VICTIMS {
            let Estimate { lo, hi, .. } = *matrix.retention(row.aggressor, victim)?;
            let (below, above) = (1.0 - MARGIN, 1.0 + MARGIN);
            let (holds, expected) = if row.slows.contains(victim) {
                (hi < below, "slowed")
            } else if row.little_use.contains(victim) {
                (lo > LITTLE_USE && hi < above, "slowed only a little")
            } else {
                (lo > below && hi < above, "unaffected")
            };
            if !holds {
                let aggressor = row.aggressor;
                wrong.push(format!(
                    "{victim} beside {aggressor} is not {expected}: {lo:.4} to {hi:.4}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", matrix.table(), wrong.join("\n"));
    Ok(())
}

#[test]
fn every_aggressor_of_the_catalogue_has_a_row() {
    let rows: BTreeSet<&str> = CONCURRENT.iter().map(|row| row.aggressor).collect();
    let all = workload::CATALOGUE.iter().filter(|one| one.role == Role::Aggressor);
    assert_eq!(rows, all.map(|one| one.name).collect());
}

#[test]
fn the_aggressor_of_every_pair_slows_its_victim() {
    let pairs = axis::PAIRS.iter();
    let pairs: Vec<_> = pairs.filter(|pair| VICTIMS.contains(&pair.victim)).collect();
    assert!(!pairs.is_empty());
    for pair in pairs {
        let row = CONCURRENT.iter().find(|row| row.aggressor == pair.aggressor);
        let slows = row.is_some_and(|row| row.slows.contains(&pair.victim));
        assert!(slows, "{pair:?} is scored without an effect");
    }
}

#[test]
fn over_the_power_cap_every_victim_is_slower() -> TestResult {
    let test = "confusion::over_the_power_cap_every_victim_is_slower";
    let Some(matrix) = run(test, &["power-virus"], POWERED, Sharing::Capped)? else {
        return Ok(());
    };
    for victim in POWERED {
        let hi = matrix.retention("power-virus", victim)?.hi;
        let table = matrix.table();
        assert!(hi < 1.0 - MARGIN, "{victim}: {hi}\n{table}");
    }
    Ok(())
}

#[test]
fn time_sliced_sm_aggressors_slow_every_sm_victim() -> TestResult {
    let test = "confusion::time_sliced_sm_aggressors_slow_every_sm_victim";
    let Some(matrix) = run(test, SM_AGGRESSORS, SM_VICTIMS, Sharing::TimeSliced)? else {
        return Ok(());
    };
    for aggressor in SM_AGGRESSORS {
        for victim in SM_VICTIMS {
            // The victim's time slice ends with its request, so it has less than half of the time.
            let Estimate { lo, hi, .. } = *matrix.retention(aggressor, victim)?;
            let table = matrix.table();
            assert!(lo > 0.1 && hi < 0.5, "{victim} beside {aggressor}: {lo} to {hi}\n{table}");
        }
    }
    Ok(())
}

/// How tenants share the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// As clients of one MPS server, with power for all of them.
    Concurrent,
    /// As clients of one MPS server, under a low power cap.
    Capped,
    /// Time-sliced, without a server.
    TimeSliced,
}

/// The retention of each victim, by aggressor and victim.
struct Matrix(BTreeMap<(String, String), Estimate>);

impl Matrix {
    fn retention(&self, aggressor: &str, victim: &str) -> Result<&Estimate, Error> {
        let found = self.0.get(&(aggressor.to_owned(), victim.to_owned()));
        Ok(found.ok_or_else(|| format!("no cell for {victim} beside {aggressor}"))?)
    }

    fn table(&self) -> String {
        let aggressors: Vec<&str> = CONCURRENT.iter().map(|row| row.aggressor).collect();
        let victims: Vec<&&str> = VICTIMS
            .iter()
            .filter(|name| self.0.keys().any(|(_, victim)| victim == **name))
            .collect();
        let mut out = format!("{:14}", "");
        for victim in &victims {
            let _ = write!(out, "{victim:>14}");
        }
        for aggressor in aggressors {
            if self.retention(aggressor, victims[0]).is_err() {
                continue;
            }
            let _ = write!(out, "\n{aggressor:14}");
            for victim in &victims {
                let found = self.retention(aggressor, victim);
                let value = found.map_or(f64::NAN, |retention| retention.value);
                let _ = write!(out, "{value:14.3}");
            }
        }
        out
    }
}

/// Measures every victim without a neighbour and then beside every aggressor, with or without an
/// MPS daemon. `None` in the process of a victim or aggressor.
fn run(
    test: &str,
    aggressors: &[&str],
    victims: &[&str],
    sharing: Sharing,
) -> Result<Option<Matrix>, Error> {
    let mps = sharing != Sharing::TimeSliced;
    if let Some(role) = tenants::role() {
        return tenants::serve(&role).map(|()| None);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("machine.toml");
    std::fs::write(&file, machine(sharing)?)?;
    let gpu = VirtualGpu::start(&file.to_string_lossy(), TimeMode::Virtual, 1)?;
    let configure = |command: &mut Command| {
        command
            .envs(gpu.environment())
            .env("CUDA_MPS_PIPE_DIRECTORY", folder.path().join("pipe"))
            .env("CUDA_MPS_LOG_DIRECTORY", folder.path().join("log"));
    };
    let control = |args: &[&str], input: Stdio| -> TestResult {
        let mut command = Command::new(gpu.command_dir().join("nvidia-cuda-mps-control"));
        configure(&mut command);
        command.args(args);
        let done = command.stdin(input).stdout(Stdio::null()).status()?;
        assert!(done.success(), "{args:?}: {done}");
        Ok(())
    };
    if mps {
        control(&["-d"], Stdio::null())?;
    }
    let matrix = Setup {
        test,
        device: gpu.open()?,
        done_file: &folder.path().join("done"),
        configure: &configure,
        mps,
    }
    .matrix(aggressors, victims);
    if mps {
        let quit = folder.path().join("quit");
        std::fs::write(&quit, "quit\n")?;
        control(&[], std::fs::File::open(&quit)?.into())?;
    }
    let matrix = matrix?;
    writeln!(std::io::stdout(), "\n{}", matrix.table())?;
    Ok(Some(matrix))
}

/// A `turing` with three changes. Noise is drawn again within every block, because the intervals
/// take blocks as independent. A context is created quickly, so that several are created in each
/// block. The power cap is high, unless it is under test, because all tenants share power.
fn machine(sharing: Sharing) -> Result<String, Error> {
    let text = gpubench_profiles::TURING;
    let mut machine: toml::Table = text.parse()?;
    let capped = sharing == Sharing::Capped;
    let cap_w = if capped { 60.0 } else { 500.0 };
    for (table, key, value) in [
        ("noise", "epoch_ms", 1.into()),
        ("host", "context_ns", 400_000.into()),
        ("power", "cap_w", toml::Value::from(cap_w)),
    ] {
        let table = machine.get_mut(table).and_then(toml::Value::as_table_mut);
        let table = table.ok_or("no such table")?;
        assert!(table.insert(key.to_owned(), value).is_some(), "{key}");
    }
    Ok(machine.to_string())
}

/// A device, and how its clients are started.
struct Setup<'a> {
    test: &'a str,
    device: Device,
    /// The victim creates it at the end of a cell.
    done_file: &'a Path,
    configure: &'a dyn Fn(&mut Command),
    mps: bool,
}

impl Setup<'_> {
    fn matrix(&self, aggressors: &[&str], victims: &[&str]) -> Result<Matrix, Error> {
        let start = |role: &str| Tenant::start(self.test, &self.device, role, self.configure);
        let mut started = Vec::new();
        for name in victims {
            let mut victim = start(&format!("victim {name}"))?;
            let solo = self.rates(&mut victim, None)?;
            started.push((*name, victim, solo));
        }
        let confidence = Confidence::simultaneous(0.05, (aggressors.len() * victims.len()) as u32)?;
        let mut cells = BTreeMap::new();
        for name in aggressors {
            let narrow = self.mps && *name != "block-slots";
            let grid = if narrow { "narrow" } else { "wide" };
            let mut aggressor = start(&format!("aggressor {name} {grid}"))?;
            for (victim, tenant, solo) in &mut started {
                let contended = self.rates(tenant, Some(&mut aggressor))?;
                let ratio = two_sample::welch(&logs(solo), &logs(&contended))?;
                let retention = ratio.interval(confidence)?.map_increasing(f64::exp)?;
                cells.insert(((*name).to_owned(), (*victim).to_owned()), retention);
            }
            aggressor.finish(&self.device)?;
        }
        for (_, tenant, _) in started {
            tenant.finish(&self.device)?;
        }
        Ok(Matrix(cells))
    }

    /// A victim's rates without a neighbour or beside an aggressor.
    fn rates(&self, victim: &mut Tenant, beside: Option<&mut Tenant>) -> Result<Vec<f64>, Error> {
        // Long enough for many requests, or many time slices.
        let (lead_ns, block_ns) =
            if self.mps { (5_000_000, 1_900_000) } else { (20_000_000, 10_000_000) };
        let now_ns = self.device.shared().read(|state| state.now_ns)?;
        let from_ns = now_ns + lead_ns;
        let cell = Cell {
            from_ns,
            block_ns,
            until_ns: from_ns + 3 * BLOCKS * block_ns,
            done_file: self.done_file.to_owned(),
        };
        if cell.done_file.exists() {
            std::fs::remove_file(&cell.done_file)?;
        }
        // Both are announced before either starts, so that the clock waits for both.
        let mut both: Vec<&mut Tenant> = std::iter::once(victim).chain(beside).collect();
        for tenant in &both {
            tenant.announce(&self.device)?;
        }
        for tenant in &mut both {
            tenant.start_cell(&cell)?;
        }
        let rates = both[0].figures()?;
        if let Some(aggressor) = both.get_mut(1) {
            aggressor.figures()?;
        }
        Ok(rates)
    }
}

fn logs(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate.ln()).collect()
}

// Which victims each aggressor slows.

pub const SM_VICTIMS: &[&str] = &["compute", "fp64", "int", "tensor", "shared", "l1", "issue"];

pub const VICTIMS: &[&str] = &[
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
    "pcie-download",
];

/// An aggressor that runs concurrently with victims.
pub struct Row {
    pub aggressor: &'static str,
    pub slows: &'static [&'static str],
    pub little_use: &'static [&'static str],
}

const fn row(
    aggressor: &'static str,
    slows: &'static [&'static str],
    little_use: &'static [&'static str],
) -> Row {
    Row { aggressor, slows, little_use }
}

pub const CONCURRENT: &[Row] = &[
    // The issue victim issues floating-point and integer additions.
    row("fma-hog", &["compute", "issue"], &["int"]),
    // Every kernel needs block slots; kernels that wait for memory need few.
    row("block-slots", SM_VICTIMS, &["stream", "l2", "tlb", "atomic", "pcie", "pcie-download"]),
    row("fp64-hog", &["fp64"], &[]),
    row("tensor-hog", &["tensor"], &["int"]),
    // Every kernel computes loop counters and addresses.
    row(
        "int-hog",
        &["int", "issue"],
        &["compute", "tensor", "shared", "l1", "stream", "l2", "atomic"],
    ),
    // Shared memory and L1 are one memory with one data path.
    row("shared-hog", &["shared", "l1"], &["int", "issue", "atomic"]),
    row("l1-hog", &["shared", "l1"], &["int", "issue", "atomic"]),
    row("issue-hog", &["issue"], &["compute", "int", "shared", "l1", "atomic"]),
    row("launch-flood", &["launch-sync"], &[]),
    row("alloc-storm", &["alloc"], &[]),
    row("context-storm", &["alloc"], &[]),
    row("module-storm", &["alloc"], &[]),
    row("pin-storm", &["alloc"], &[]),
    row("dram-copy", &["stream"], &[]),
    row("dram-read", &["stream"], &["int"]),
    row("dram-write", &["stream"], &["int"]),
    row("tlb-stride", &["tlb"], &[]),
    // DRAM accesses pass through L2, which also executes atomics.
    row("l2-stream", &["l2"], &["int", "stream", "tlb", "atomic"]),
    row("l2-thrash", &["l2"], &["int", "stream", "tlb", "atomic"]),
    row("atomics", &["atomic"], &["int"]),
    // The two directions of the link are separate resources.
    row("pcie-h2d", &["pcie"], &[]),
    row("pcie-d2h", &["pcie-download"], &[]),
    row("pcie-both", &["pcie", "pcie-download"], &[]),
    // Additions and copies; this machine has power for both.
    row("power-virus", &["compute", "issue", "stream"], &["int"]),
    // It calls the driver all the time. Whether memory is left is not a rate.
    row("memory-hog", &["alloc"], &[]),
];
