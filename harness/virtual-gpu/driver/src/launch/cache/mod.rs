//! The launch cache: identical launches are not executed again.
//!
//! Two mechanisms keep the cost of a run from growing with the number and the length of its
//! launches. Loop extrapolation (`ptx`, `exec/extrapolate.rs`) shortens one execution. The launch
//! cache avoids executions. It keeps three facts of a launch, because they hold under different
//! conditions:
//!
//! - `profile`: its cost and the memory that it accesses, by its key (kernel, shape, arguments,
//!   context). A sampled or idempotent launch on unchanged memory needs nothing else.
//! - `effects`: the contents that it writes, by the digest of its inputs. They are replayed if
//!   memory has changed since.
//! - `costs`: the cost of a sampled launch, by a key without addresses, in a file of the device.
//!   Later contexts and processes find it there.
//!
//! CPU time of the smoke matrix on `hopper` with one mechanism off, relative to all on (21.8 s on a
//! busy host; equal runs differ by a tenth): costs 2.6, loop extrapolation 1.2, profile 1.1,
//! effects 1.0. The Parquet bytes do not change. Effects save time where small launches are
//! executed in full: when they were added, a flood of such launches took a sixth of the time.

mod contents;
mod cost_line;
pub mod costs;
pub(crate) mod effect_store;
mod effects;
pub(crate) mod portable;
mod profile;

use std::sync::Arc;

use super::clocking::Clocking;
use super::execute;
use super::kernel::kernel_of;
use super::outcome::Outcome;
use super::request::Key;
use super::state::LaunchProfile;
use super::write_guard::WriteGuard;
use crate::code::Code;
use crate::entries::FunctionEntry;
use crate::process::Process;
use costs::PortableLaunch;
use gpubench_virtual_gpu_model::state::Cause;
use portable::portable;

/// The profile of an identical launch, if executing it again is not needed. Its effect on memory
/// has been replayed then.
pub(super) fn find(process: &Process, key: &Key) -> Option<Arc<LaunchProfile>> {
    profile::unchanged(process, key).or_else(|| effects::replay(process, key))
}

/// Executes a launch that `find` did not find, and keeps its profile, effect and cost.
pub(super) fn execute(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
) -> Result<(Arc<LaunchProfile>, Option<Cause>), Code> {
    let properties = kernel_of(function)?.properties;
    let launch = portable(process, function, key)?;
    let recording = effects::record(process, key, &launch.pointees, &properties);
    let outcome = {
        let _writing = WriteGuard::begin(process);
        cost_or_execute(process, function, key, &launch)?
    };
    let fault = outcome.fault;
    let profile = profile::keep(process, key, launch.pointees, outcome);
    if let Some(recording) = recording {
        effects::keep(process, key, recording, &profile);
    }
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
    let outcome = execute::execute(process, function, key, &launch.pointees, &Clocking::Ideal)?;
    process.cost_cache().keep(launch, &outcome);
    Ok(outcome)
}
