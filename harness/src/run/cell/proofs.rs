//! Proofs that a mechanism is in force, taken before, during and after the samples of a cell.

use gpubench_record::{Cell, RunEvent};

use super::{DeviceProcesses, MechanismLedger, RunError, RunHandles, Serving, TenantSet, observe};
use crate::mechanism::{self, Observation};

/// Observes the mechanism next to the samples, while the same contexts are open. A user's program
/// comes to the device and leaves it by itself, and is observed among the samples only.
pub async fn observe_and_prove(
    tenants: &TenantSet,
    ledger: &mut MechanismLedger,
    cell: &Cell,
    when: &str,
) -> Result<(), RunError> {
    if tenants.program().is_some() {
        return Ok(());
    }
    let handles = tenants.handles();
    let doing = "asking NVML for the processes on the device";
    let on_device = handles.nvml(doing, DeviceProcesses::now).await?;
    let serving = Serving::now(tenants).await?;
    let seen = observe::seen(tenants, cell.condition, &on_device, &serving);
    // A tenant that died is missing on the device whatever the mechanism; the cell reports the
    // death.
    if seen.ours.iter().any(|&pid| !observe::lives(pid)) {
        return Ok(());
    }
    prove(handles, ledger, cell, when, &seen)
}

/// Writes the evidence for and against the mechanism having been in force.
pub fn prove(
    handles: &RunHandles,
    ledger: &mut MechanismLedger,
    cell: &Cell,
    when: &str,
    seen: &Observation,
) -> Result<(), RunError> {
    let Some(mechanism) = mechanism::find(&cell.mechanism) else {
        return Ok(());
    };
    let host = &handles.setup.host;
    let asked = host.context_of(&cell.mechanism, &cell.variant);
    let is_set_up = mechanism.configuration(&asked).stage.is_some();
    for mut proof in mechanism.prove(&asked, seen) {
        when.clone_into(&mut proof.when);
        if !proof.holds && is_set_up {
            // A mechanism that was set up and is not there has failed; what other processes disturb
            // is in doubt.
            let reason = format!("not in force: {}: {}", proof.check, proof.evidence);
            ledger.failed(&cell.mechanism, &cell.variant, &reason)?;
        }
        handles.recorder.event(&RunEvent::Proved {
            variant: cell.variant.clone(),
            proof,
        })?;
    }
    Ok(())
}
