//! Proofs that a mechanism is in force, taken before, during and after the samples of a cell.

use gpubench_record::{Cell, RunEvent};

use super::{DeviceProcesses, MechanismLedger, RunError, RunHandles, Serving, TenantSet, observe};
use crate::mechanism::{self, Observation};

/// Observes the mechanism before or after the samples, while the same contexts are open. A user's
/// program opens and closes its context by itself, so it is observed during the samples only.
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
    let doing = "reading the processes on the device from NVML";
    let on_device = handles.nvml(doing, DeviceProcesses::now).await?;
    let serving = Serving::now(tenants).await?;
    let observation = observe::observation(tenants, cell.condition, &on_device, &serving);
    // A dead tenant is missing on the device under every mechanism; the cell reports the death.
    if observation.ours.iter().any(|&pid| !observe::is_alive(pid)) {
        return Ok(());
    }
    prove(handles, ledger, cell, when, &observation)
}

/// Writes the evidence for and against the mechanism having been in force.
pub fn prove(
    handles: &RunHandles,
    ledger: &mut MechanismLedger,
    cell: &Cell,
    when: &str,
    observation: &Observation,
) -> Result<(), RunError> {
    let Some(mechanism) = mechanism::find(&cell.mechanism) else {
        return Ok(());
    };
    let host = &handles.setup.host;
    let context = host.context_of(&cell.mechanism, &cell.variant);
    let is_set_up = mechanism.configuration(&context).stage.is_some();
    for mut proof in mechanism.prove(&context, observation) {
        when.clone_into(&mut proof.when);
        if !proof.holds && is_set_up {
            // A mechanism that was set up and is not in force has failed. One without set-up may be
            // disturbed by other processes, which makes its rows inconclusive.
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
