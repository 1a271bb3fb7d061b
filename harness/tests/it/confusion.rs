//! Which aggressor moves which victim on the virtual GPU, as a matrix: each one its own resource
//! and nobody else's while kernels run side by side, and all of an SM while they take turns.
//!
//! Each victim and each aggressor is a process with a context of its own, and all are clients of
//! one MPS server, or of none. Side by side, aggressors have one block on each SM: a grid that
//! fills the device takes every slot for blocks too, which has an aggressor of its own. The device
//! has noise, and what a victim keeps is an interval over blocks: of all intervals of a matrix
//! together, 95 %.
//!
//! Every aggressor of the catalogue is there. Left out are victims that mix resources (`inference`,
//! `launch`), and the one that asks for memory and not for time (`reserve`).

mod cast;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gpubench::axis;
use gpubench::device::VirtualGpu;
use gpubench_record::Role;
use gpubench_stats::{Confidence, Estimate, two_sample};
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::TimeMode;
use gpubench_workloads::load;

use crate::support::{Error, TestResult, binary};
use cast::{Actor, BLOCKS, Cell};

/// What a victim keeps is told from all of its rate at this distance: one is moved whose whole
/// interval lies below it, and left alone whose whole interval lies within it.
const MARGIN: f64 = 0.02;

/// A victim that uses a resource in passing keeps more than this part beside who exhausts it.
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
    "pcie-download",
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
        &["stream", "l2", "tlb", "atomic", "pcie", "pcie-download"],
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
    row("dram-read", &["stream"], &[]),
    row("dram-write", &["stream"], &[]),
    row("tlb-stride", &["tlb"], &[]),
    // What comes from DRAM comes through L2, and atomics are carried out there.
    row("l2-stream", &["l2"], &["stream", "tlb", "atomic"]),
    row("l2-thrash", &["l2"], &["stream", "tlb", "atomic"]),
    row("atomics", &["atomic"], &[]),
    // Each way of the link is a resource of its own.
    row("pcie-h2d", &["pcie"], &[]),
    row("pcie-d2h", &["pcie-download"], &[]),
    row("pcie-both", &["pcie", "pcie-download"], &[]),
    // Additions and copies; there is power for both here.
    row("power-virus", &["compute", "issue", "stream"], &[]),
    // What takes all memory calls the driver all the time. Whether any is left is no rate.
    row("memory-hog", &["alloc"], &[]),
];

/// Victims that use nothing of what draws the most power but power itself.
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
fn side_by_side_each_aggressor_moves_the_victims_of_its_resource_alone() -> TestResult {
    let test = "confusion::side_by_side_each_aggressor_moves_the_victims_of_its_resource_alone";
    let aggressors: Vec<&str> = SIDE_BY_SIDE.iter().map(|row| row.aggressor).collect();
    let Some(matrix) = play(test, &aggressors, VICTIMS, Room::SideBySide)? else {
        return Ok(());
    };
    let mut wrong = Vec::new();
    for row in SIDE_BY_SIDE {
        for victim in VICTIMS {
            let kept = matrix.kept(row.aggressor, victim)?;
            let (below, above) = (1.0 - MARGIN, 1.0 + MARGIN);
            let (holds, expected) = if row.moves.contains(victim) {
                (kept.hi < below, "moved")
            } else if row.passing.contains(victim) {
                (kept.lo > PASSING && kept.hi < above, "in passing")
            } else {
                (kept.lo > below && kept.hi < above, "left alone")
            };
            if !holds {
                let (aggressor, Estimate { lo, hi, .. }) = (row.aggressor, kept);
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
fn every_aggressor_of_the_catalogue_has_its_row() {
    let rows: BTreeSet<&str> = SIDE_BY_SIDE.iter().map(|row| row.aggressor).collect();
    let all = load::CATALOGUE
        .iter()
        .filter(|one| one.role == Role::Aggressor);
    assert_eq!(rows, all.map(|one| one.name).collect());
}

#[test]
fn the_aggressor_of_every_pair_moves_its_victim() {
    let played = axis::PAIRS
        .iter()
        .filter(|pair| VICTIMS.contains(&pair.victim));
    for pair in played {
        let row = SIDE_BY_SIDE
            .iter()
            .find(|row| row.aggressor == pair.aggressor);
        let moves = row.is_some_and(|row| row.moves.contains(&pair.victim));
        assert!(moves, "{pair:?} is scored, and one does not move the other");
    }
}

#[test]
fn over_the_power_cap_whoever_runs_is_slower() -> TestResult {
    let test = "confusion::over_the_power_cap_whoever_runs_is_slower";
    let Some(matrix) = play(test, &["power-virus"], POWERED, Room::Capped)? else {
        return Ok(());
    };
    for victim in POWERED {
        let kept = matrix.kept("power-virus", victim)?;
        assert!(
            kept.hi < 1.0 - MARGIN,
            "{victim}: {kept:?}\n{}",
            matrix.table()
        );
    }
    Ok(())
}

#[test]
fn in_turns_every_aggressor_of_the_sms_moves_every_victim_of_theirs() -> TestResult {
    let test = "confusion::in_turns_every_aggressor_of_the_sms_moves_every_victim_of_theirs";
    let Some(matrix) = play(test, SM_AGGRESSORS, SM_VICTIMS, Room::InTurns)? else {
        return Ok(());
    };
    for aggressor in SM_AGGRESSORS {
        for victim in SM_VICTIMS {
            // The aggressor has work all the time, and the victim's turn ends with its request:
            // less than half.
            let kept = matrix.kept(aggressor, victim)?;
            let table = || format!("{victim} beside {aggressor}: {kept:?}\n{}", matrix.table());
            assert!(kept.lo > 0.1 && kept.hi < 0.5, "{}", table());
        }
    }
    Ok(())
}

/// How tenants meet on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// As clients of one MPS server, with power for everybody.
    SideBySide,
    /// The same, where power is short.
    Capped,
    /// One after the other.
    InTurns,
}

/// What each victim keeps of its rate, by aggressor.
struct Matrix(BTreeMap<(String, String), Estimate>);

impl Matrix {
    fn kept(&self, aggressor: &str, victim: &str) -> Result<&Estimate, Error> {
        let kept = self.0.get(&(aggressor.to_owned(), victim.to_owned()));
        Ok(kept.ok_or_else(|| format!("no cell for {victim} beside {aggressor}"))?)
    }

    fn table(&self) -> String {
        let aggressors: Vec<&str> = SIDE_BY_SIDE.iter().map(|row| row.aggressor).collect();
        let victims: Vec<&&str> = VICTIMS
            .iter()
            .filter(|name| self.0.keys().any(|(_, victim)| victim == **name))
            .collect();
        let mut out = format!("{:14}", "");
        for victim in &victims {
            let _ = write!(out, "{victim:>14}");
        }
        for aggressor in aggressors {
            if self.kept(aggressor, victims[0]).is_err() {
                continue;
            }
            let _ = write!(out, "\n{aggressor:14}");
            for victim in &victims {
                let kept = self.kept(aggressor, victim);
                let kept = kept.map_or(f64::NAN, |kept| kept.value);
                let _ = write!(out, "{kept:14.3}");
            }
        }
        out
    }
}

/// Every victim alone, then beside every aggressor, on a virtual GPU of their own, with an MPS
/// daemon or without one. `None` where this process is one of them.
fn play(
    test: &str,
    aggressors: &[&str],
    victims: &[&str],
    room: Room,
) -> Result<Option<Matrix>, Error> {
    let mps = room != Room::InTurns;
    if let Some(part) = cast::part() {
        return cast::follow(&part).map(|()| None);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("machine.toml");
    std::fs::write(&file, machine(room)?)?;
    let gpu = VirtualGpu::start(&file.to_string_lossy(), TimeMode::Virtual, 1)?;
    let around = |command: &mut Command| {
        command
            .envs(gpu.environment())
            .env("CUDA_MPS_PIPE_DIRECTORY", folder.path().join("pipe"))
            .env("CUDA_MPS_LOG_DIRECTORY", folder.path().join("log"));
    };
    let control = |args: &[&str], input: Stdio| -> TestResult {
        // The stand-in is the binary under another name.
        let mut command = binary();
        around(&mut command);
        command.arg0("nvidia-cuda-mps-control").args(args);
        let done = command.stdin(input).stdout(Stdio::null()).status()?;
        assert!(done.success(), "{args:?}: {done}");
        Ok(())
    };
    if mps {
        control(&["-d"], Stdio::null())?;
    }
    let matrix = Stage {
        test,
        device: gpu.open()?,
        over: &folder.path().join("over"),
        around: &around,
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

/// A plain machine whose noise is drawn anew within every block, since an interval over blocks
/// takes them for independent; which makes a context quickly, so that every block sees several
/// made; and which has power to spare, unless its cap is what is looked at: that is a resource of
/// everybody.
fn machine(room: Room) -> Result<String, Error> {
    let text = include_str!("../../../profiles/machines/turing.toml");
    let mut machine: toml::Table = text.parse()?;
    let cap_w = if room == Room::Capped { 60.0 } else { 500.0 };
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
struct Stage<'a> {
    test: &'a str,
    device: Device,
    over: &'a Path,
    around: &'a dyn Fn(&mut Command),
    mps: bool,
}

impl Stage<'_> {
    fn matrix(&self, aggressors: &[&str], victims: &[&str]) -> Result<Matrix, Error> {
        let start = |part: &str| Actor::start(self.test, &self.device, part, self.around);
        let mut cast = Vec::new();
        for name in victims {
            let mut victim = start(&format!("victim {name}"))?;
            let alone = self.rates(&mut victim, None)?;
            cast.push((*name, victim, alone));
        }
        let confidence = Confidence::simultaneous(0.05, (aggressors.len() * victims.len()) as u32)?;
        let mut cells = BTreeMap::new();
        for name in aggressors {
            let narrow = self.mps && *name != "block-slots";
            let part = if narrow { "narrow" } else { "wide" };
            let mut aggressor = start(&format!("aggressor {name} {part}"))?;
            for (victim, actor, alone) in &mut cast {
                let beside = self.rates(actor, Some(&mut aggressor))?;
                let kept = two_sample::welch(&logs(alone), &logs(&beside))?;
                let kept = kept.interval(confidence)?.map_increasing(f64::exp)?;
                cells.insert(((*name).to_owned(), (*victim).to_owned()), kept);
            }
            aggressor.finish(&self.device)?;
        }
        for (_, actor, _) in cast {
            actor.finish(&self.device)?;
        }
        Ok(Matrix(cells))
    }

    /// A victim's rates, alone or beside an aggressor.
    fn rates(&self, victim: &mut Actor, beside: Option<&mut Actor>) -> Result<Vec<f64>, Error> {
        // Many requests, or many turns.
        let (lead_ns, block_ns) = if self.mps {
            (5_000_000, 1_900_000)
        } else {
            (20_000_000, 10_000_000)
        };
        let now_ns = self.device.shared().read(|state| state.now_ns)?;
        let from_ns = now_ns + lead_ns;
        let cell = Cell {
            from_ns,
            block_ns,
            until_ns: from_ns + 3 * BLOCKS * block_ns,
            over: self.over.to_owned(),
        };
        if cell.over.exists() {
            std::fs::remove_file(&cell.over)?;
        }
        // Both are announced before either is told: the clock waits for them.
        let mut both: Vec<&mut Actor> = std::iter::once(victim).chain(beside).collect();
        for actor in &both {
            actor.announce(&self.device)?;
        }
        for actor in &mut both {
            actor.play(&cell)?;
        }
        let rates = both[0].says()?;
        if let Some(aggressor) = both.get_mut(1) {
            aggressor.says()?;
        }
        Ok(rates)
    }
}

fn logs(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate.ln()).collect()
}
