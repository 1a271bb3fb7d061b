//! Proofs that a mechanism was in force in a cell.

use gpubench_record::{Cell, RunEvent};

use super::{MechanismLedger, RunError, RunHandles, observe};
use crate::mechanism::{self, Observation};

/// Writes the evidence for and against the mechanism having been in force in a cell that began at
/// `t0_ns` on the clock of the tenants.
pub fn prove(
    handles: &RunHandles,
    ledger: &mut MechanismLedger,
    cell: &Cell,
    t0_ns: u64,
    observation: &Observation,
) -> Result<(), RunError> {
    let Some(mechanism) = mechanism::find(&cell.mechanism) else {
        return Ok(());
    };
    // A dead tenant is missing on the device under every mechanism; the cell reports the death.
    if observation.ours.iter().any(|&pid| !observe::is_alive(pid)) {
        return Ok(());
    }
    let host = &handles.setup.host;
    let context = host.context_of(&cell.mechanism, &cell.variant);
    let is_set_up = mechanism.configuration(&context).stage.is_some();
    let offset = |t_ns: u64| i64::try_from(i128::from(t_ns) - i128::from(t0_ns)).ok();
    for mut proof in mechanism.prove(&context, observation) {
        proof.t_ns = observation.instant_of(proof.when).and_then(offset);
        if !proof.holds && is_set_up {
            // A mechanism that was set up and is not in force has failed. One without set-up may be
            // disturbed by other processes, which makes its rows inconclusive.
            let reason = format!("not in force: {}: {}", proof.check, proof.evidence);
            ledger.failed(&cell.mechanism, &cell.variant, &reason)?;
        }
        handles.recorder.event(&RunEvent::Proved {
            variant: cell.variant.clone(),
            cell: Some(cell.id.clone()),
            proof,
        })?;
    }
    Ok(())
}
