//! Proofs of every mechanism with an MPS daemon: its clients, and the SMs that they see.

use gpubench_record::Proof;

use crate::mechanism::{Observation, Requirement};

/// The daemon lists every tenant.
pub(in crate::mechanism) const CLIENTS: Requirement =
    Requirement::during("every tenant is a client of our MPS daemon");
/// NVML lists every tenant as a client. Its process ids can be of another PID namespace and then
/// show nothing, so no cell needs this proof.
const NVML_CLIENTS: Requirement = Requirement::during("NVML lists every tenant as an MPS client");
/// No percentage limits a tenant.
pub(in crate::mechanism) const ALL_SMS: Requirement =
    Requirement::at_open("every tenant sees all SMs of the device");

/// Whether every tenant is a client of our daemon.
pub(in crate::mechanism) fn clients(observed: &Observation) -> Vec<Proof> {
    if observed.condition.is_native() {
        return Vec::new();
    }
    let missing = |listed: &[u32]| -> Vec<u32> {
        let absent = observed.ours.iter().filter(|pid| !listed.contains(pid));
        absent.copied().collect()
    };
    let mut proofs = vec![match &observed.daemon_clients {
        None => CLIENTS.proof(false, "there is no daemon"),
        Some(Err(error)) => CLIENTS.proof(false, error),
        Some(Ok(listed)) => {
            let missing = missing(listed);
            let evidence = if missing.is_empty() {
                format!("the daemon lists all of {:?}", observed.ours)
            } else {
                format!("the daemon lists {listed:?}, without {missing:?}")
            };
            CLIENTS.proof(missing.is_empty(), evidence)
        }
    }];
    if let Some(listed) = observed.mps_clients.as_ref()
        && listed.iter().any(|pid| observed.ours.contains(pid))
    {
        let missing = missing(listed);
        let evidence = format!("NVML lists MPS clients {listed:?}, without {missing:?}");
        proofs.push(NVML_CLIENTS.proof(missing.is_empty(), evidence));
    }
    proofs
}

/// Whether every tenant has the SMs of the whole device. A percentage that a tenant inherits, or
/// that the daemon has as its default, limits a client without a trace in any list.
pub(in crate::mechanism) fn all_sms(observed: &Observation) -> Proof {
    let Some(all) = observed.native_sm_count else {
        return ALL_SMS.proof(false, "no tenant has reported the SMs of the whole device");
    };
    let reported = observed.tenants.iter().map(|t| (t.name(), t.number("sm_count")));
    let reported: Vec<_> = reported.collect();
    let has_all = |(_, count): &(String, Option<u64>)| *count == Some(u64::from(all));
    let holds = !reported.is_empty() && reported.iter().all(has_all);
    let text = |(name, count): &(String, Option<u64>)| match count {
        Some(count) => format!("{name} {count}"),
        None => format!("{name} nothing"),
    };
    let reported: Vec<String> = reported.iter().map(text).collect();
    ALL_SMS.proof(holds, format!("of {all} SMs; reported: {}", reported.join(", ")))
}
