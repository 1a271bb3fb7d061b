//! `stream-priority`: tenants are threads of one process with a stream each; the victim's stream
//! has the highest priority, the neighbours' streams have the lowest.
//!
//! A priority is a hint: blocks of higher priority are placed first, and running work is not
//! preempted (CUDA driver API, `cuStreamCreateWithPriority`). It divides nothing: the tenants share
//! SMs, memory, address space and faults, and only their rates are scored.
//!
//! The proof is that NVML lists one process, ours. Each tenant reads the priority of its stream
//! back from the driver.

use gpubench_record::wire::Inside;
use gpubench_record::{Proof, Sharing, SmNumbers};

use super::green_context::one_process;
use super::host::{Guard, HostError};
use super::waivers::{device_is_partitioned, prohibited};
use super::{
    Configuration, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, TenantEnv, Tenants,
};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct StreamPriority;

/// Its facts that need no host.
const ENTRY: MechanismEntry = MechanismEntry {
    name: "stream-priority",
    summary: "threads of one process; the victim's stream has the highest priority, a hint",
    group: "mps",
    reconfigures: false,
    options: &[],
    sharing: Sharing::InSpace,
    tenants: Tenants::Threads(inside),
    mps_daemon: false,
    accounting_library: false,
    sm_numbers: SmNumbers::OfDevice,
    settles_ns: 0,
    unprotected: None,
};

fn inside(slots: usize) -> Vec<Inside> {
    let one = |slot| Inside::StreamPriority { high: slot == 0 };
    (0..slots).map(one).collect()
}

impl Mechanism for StreamPriority {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let waived = device_is_partitioned(cx.facts).or_else(|| prohibited(cx.facts));
        waived.unwrap_or(Availability::Available)
    }

    fn configuration(&self, _cx: &MechanismContext<'_>) -> Configuration {
        Configuration {
            variant: ENTRY.name.to_owned(),
            host_changes: Vec::new(),
            stage: None,
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
        }
    }

    fn enter(&self, _cx: &MechanismContext<'_>, _guard: &mut Guard) -> Result<InForce, HostError> {
        Ok(InForce::default())
    }

    fn tenant_env(&self, _: &MechanismContext<'_>, _: &InForce, _slot: usize) -> TenantEnv {
        TenantEnv::new()
    }

    fn prove(&self, _cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        if observed.condition.is_native() || observed.tenants.len() < 2 {
            return Vec::new();
        }
        one_process(observed).into_iter().collect()
    }
}
