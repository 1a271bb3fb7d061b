//! What the virtual GPU needs to repeat the plan of a record: the machine that models its GPU, the
//! profile, and the probes and faults.

use std::collections::BTreeSet;
use std::path::Path;

use gpubench_catalogue::axis::{self, AxisEntry};
use gpubench_catalogue::fault;
use gpubench_compare::fidelity::{DeviceSize, Noticed, Reasons};
use gpubench_plan::profile::units::{Share, Span};
use gpubench_plan::profile::{Blocks, BurstOptions, CellParts, OpenLoops, Profile, Wanted};
use gpubench_record::{
    Axis, Condition, DeviceKind, ProbeFound, RunRecord, SubAxis, parser_message,
};
use gpubench_virtual_gpu::machine::faults::Under;
use gpubench_virtual_gpu::machine::{self, Machine};

use super::after_cells::{AfterCells, FaultRequest};
use super::verdict;
use crate::error::ExpectedError;
use crate::error::{WRITTEN_BYTES_MAX, read_text};

/// Longer than any plan of a record, so that no cell is shortened.
const DEVICE_TIME: Span = Span::from_s(7 * 24 * 3_600);

/// The name of the machine that models the GPU of a record, or `named`.
/// Fails when the record is not of a real GPU, its victim is the user's program, or no machine file
/// names its GPU.
pub fn machine_name(
    name: &str,
    run: &RunRecord,
    named: Option<&str>,
) -> Result<String, ExpectedError> {
    let refused = |problem: String, remedy: &str| {
        ExpectedError::usage(format!("record {name}: {problem}"), Some(remedy))
    };
    if run.device.kind == DeviceKind::Virtual {
        let problem = "it is of a virtual GPU".to_owned();
        return Err(refused(problem, "a record of a real GPU"));
    }
    if run.plan.user_victim.is_some() {
        let problem = "its victim is a user's program, which the model does not have".to_owned();
        return Err(refused(problem, "a record with built-in victims"));
    }
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    for (built_in, _) in machine::BUILT_IN {
        if load(built_in)?.gpu.boards.contains(&run.device.name) {
            return Ok((*built_in).to_owned());
        }
    }
    let problem = format!("no machine file models {}", run.device.name);
    Err(refused(problem, "--machine NAME|PATH; gpubench virtual-gpu list prints the machines"))
}

pub fn load(name: &str) -> Result<Machine, ExpectedError> {
    Machine::load(name).map_err(|error| verdict::from_virtual_gpu(error.into()))
}

/// What decides how many blocks are resident on a machine.
pub const fn size(machine: &Machine) -> DeviceSize {
    DeviceSize {
        sms: machine.gpu.sm_count,
        threads_per_sm: machine.gpu.max_threads_per_sm,
        blocks_per_sm: machine.gpu.max_blocks_per_sm,
    }
}

pub fn noticed(machine: &Machine) -> Noticed {
    let mut noticed = Noticed::new();
    for (fault, under) in
        fault::CATALOGUE.iter().flat_map(|fault| Under::ALL.map(|under| (fault, under)))
    {
        let points = machine.fault_row(fault.name, under).and_then(|row| row.noticed_ms);
        if let Some([least, _, most]) = points {
            let key = (under.as_str().to_owned(), fault.name.to_owned());
            noticed.insert(key, [least, most].map(|ms| (ms * 1e6) as u64));
        }
    }
    noticed
}

/// The list of known differences in a file.
pub fn reasons(path: &Path) -> Result<Reasons, ExpectedError> {
    let what = "list of known differences";
    let text = read_text(what, path, WRITTEN_BYTES_MAX)?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        let message = parser_message(error.message());
        let source = std::io::Error::other(format!("line {line}: {message}"));
        ExpectedError::Unreadable { what, path: path.to_owned(), source }
    })
}

/// A profile that plans what the record has: its mechanisms, pairs of workloads, doses, lengths,
/// load and seed, with at most this many blocks. `options` has the options of the mechanisms, which
/// a record does not hold. Nothing is heated and no block is added.
pub fn profile(run: &RunRecord, options: Profile, blocks: u32) -> Profile {
    let plan = &run.plan;
    let blocks = blocks.min(plan.blocks);
    let none = Span::from_ns(0);
    let parts = CellParts {
        warmup: Span::from_ns(plan.durations.warmup_ns),
        closed: Span::from_ns(plan.durations.closed_ns),
        gap: Span::from_ns(plan.durations.gap_ns),
        open: Span::from_ns(plan.durations.open_ns),
    };
    let mut profile = Profile {
        name: run.profile.name.clone(),
        decides: plan.decides,
        mechanisms: Wanted::Names(unique(plan.mechanisms.iter().map(|one| one.name.as_str()))),
        axes: Wanted::Names(axes(run)),
        victims: Wanted::Names(unique(plan.pairs.iter().map(|pair| pair.victim.as_str()))),
        aggressors: Wanted::Names(unique(plan.pairs.iter().map(|pair| pair.aggressor.as_str()))),
        tenants: plan.tenants,
        neighbours: plan.neighbours.clone(),
        sweep: plan.sweep.clone(),
        share: Share::new(plan.share).unwrap_or(options.share),
        seed: run.seed,
        slo: Span::from_ns(plan.slo_ns.unwrap_or(0)),
        slo_share: plan.slo_share,
        bursts: plan.bursts.map_or(options.bursts, |bursts| BurstOptions {
            requests: bursts.requests,
            peak: bursts.peak,
        }),
        doses: doses(run),
        open_loops: if plan.cells.iter().any(|cell| cell.closed_only) {
            OpenLoops::Jitter
        } else {
            OpenLoops::All
        },
        device_time: DEVICE_TIME,
        blocks: Blocks { min: blocks, max: blocks, top_up: false, half_width: 0.0 },
        cell: parts,
        cell_min: parts,
        thresholds: plan.thresholds.clone(),
        ..options
    };
    // Records before format 2 lack these.
    if plan.load > 0.0 {
        profile.load = plan.load * f64::from(plan.tenants);
    }
    if plan.service_ns > 0 {
        profile.service = Span::from_ns(plan.service_ns);
    }
    profile.rotation.runs = 1;
    profile.rotation.services.clear();
    (profile.soak.limit, profile.soak.keep_warm, profile.soak.check) = (none, none, none);
    profile
}

pub fn after_cells(run: &RunRecord, fault_trials: u32) -> AfterCells {
    let scored = run.plan.fault_trials.iter();
    let scored = scored.filter(|trial| trial.facts.control.is_none());
    let faults = unique(scored.map(|trial| trial.fault.as_str()));
    let is_of_row = |found: &ProbeFound| MEMORY.iter().any(|row| found.is_of_row(row.as_str()));
    let found = || run.probes.iter().map(|probe| &probe.found);
    let is_escape = |found: &ProbeFound| matches!(found, ProbeFound::Escape { .. });
    AfterCells {
        probes: found().any(|one| !is_of_row(one) && !is_escape(one)),
        escape: found().any(is_escape),
        fault_trials: (!faults.is_empty()).then_some(fault_trials),
        faults: if faults.is_empty() { FaultRequest::Off } else { FaultRequest::On(faults) },
    }
}

/// The sub-axes that probes alone answer.
const MEMORY: [SubAxis; 3] = [SubAxis::Cap, SubAxis::Residue, SubAxis::Visibility];

/// The sub-axes of the record's pairs and of its rows of memory, and jitter where it has rows of
/// it.
fn axes(run: &RunRecord) -> Vec<String> {
    let paired = |entry: &AxisEntry| {
        let mut pairs = run.plan.pairs.iter();
        pairs.any(|pair| pair.sub_axis == entry.sub_axis)
    };
    let paired = axis::CATALOGUE.iter().filter(|entry| paired(entry));
    let has = |axis: Axis, sub_axis: Option<&str>| {
        let mut rows = run.matrix.iter().filter(|row| row.axis == axis.as_str());
        rows.any(|row| sub_axis.is_none_or(|wanted| row.sub_axis.as_deref() == Some(wanted)))
    };
    let memory = MEMORY.map(SubAxis::as_str).into_iter();
    let memory = memory.filter(|name| has(Axis::Memory, Some(name)));
    let memory = memory.map(|name| format!("{}/{name}", Axis::Memory.as_str()));
    let jitter = has(Axis::Jitter, None).then(|| Axis::Jitter.as_str().to_owned());
    let paired = paired.map(|entry| entry.name.to_owned());
    paired.chain(memory).chain(jitter).collect()
}

/// The doses of the record's contended cells, smallest first.
fn doses(run: &RunRecord) -> Vec<f64> {
    let contended = run.plan.cells.iter().filter(|cell| cell.condition == Condition::C);
    let bits: BTreeSet<u64> = contended.map(|cell| cell.dose.to_bits()).collect();
    // Positive numbers sort as their bits do.
    let doses: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
    if doses.is_empty() { vec![1.0] } else { doses }
}

/// Each name once, in order.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}
