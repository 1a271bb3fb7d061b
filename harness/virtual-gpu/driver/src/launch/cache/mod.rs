//! The launch cache: identical launches are not executed again.
//!
//! Two mechanisms keep the cost of a run from growing with the number and the length of its
//! launches. Loop extrapolation (`ptx`, `exec/extrapolate.rs`) shortens one execution. The launch
//! cache avoids executions. It keeps two facts of a launch, because they hold under different
//! conditions:
//!
//! - `profile`: its cost and the memory that it accesses, by its key (kernel, shape, arguments,
//!   context). A sampled or idempotent launch on unchanged memory needs nothing else.
//! - `costs`: the cost of a sampled launch, by a key without addresses, in a file of the device.
//!   Later contexts and processes find it there.
//!
//! CPU time of the smoke matrix on `hopper` with one mechanism off, relative to all on (21.8 s on a
//! busy host; equal runs differ by a tenth): costs 2.6, loop extrapolation 1.2, profile 1.1,
//! The Parquet bytes do not change.

pub mod costs;
pub(crate) mod profile;

use std::sync::Arc;

use super::request::{Key, Outcome};
use super::rerun::Clocking;
use super::run;
use super::state::LaunchProfile;
use crate::code::Code;
use crate::entries::FunctionEntry;
use crate::process::Process;
use costs::PortableLaunch;
use gpubench_virtual_gpu_model::state::Cause;
use profile::portable;
pub(super) use profile::unchanged;

/// Executes a launch that is not [`unchanged`], and keeps its profile and cost.
pub(super) fn execute(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
) -> Result<(Arc<LaunchProfile>, Option<Cause>), Code> {
    let launch = portable(process, function, key)?;
    let outcome = cost_or_execute(process, function, key, &launch)?;
    let fault = outcome.fault;
    let profile = profile::keep(process, key, outcome);
    Ok((profile, fault))
}

/// The outcome of a launch: from the cost cache of the device, or by executing it.
fn cost_or_execute(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
    launch: &PortableLaunch,
) -> Result<Outcome, Code> {
    let profile = process.tables().launches.profiles.get(key).cloned();
    // The cost cache holds sampled launches only.
    let full = profile.is_some_and(|profile| !profile.sampled);
    if !full && let Some(outcome) = process.cost_cache().find(launch) {
        return Ok(outcome);
    }
    let outcome = run::execute(process, function, key, &launch.pointees, &Clocking::Ideal)?;
    process.cost_cache().keep(launch, &outcome);
    Ok(outcome)
}
