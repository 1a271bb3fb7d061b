//! Which records' fault trials count together: those of one device under one driver, with the same
//! number of tenants, the same service time and the same scoring rules. Virtual trials count only
//! with those of the same machine file.

use gpubench_record::{DeviceKind, FaultResult, RecordLeftOut, RunRecord};

/// The trials that count with those of one record, and why others do not.
#[derive(Debug, Default)]
pub struct Pooled {
    /// The trials of each other record that counts.
    pub earlier: Vec<Vec<FaultResult>>,
    /// The records that do not count, with the reason.
    pub left_out: Vec<RecordLeftOut>,
}

/// Name of the fact that identifies a virtual machine, whose UUID follows from its seed.
pub const MACHINE_HASH: &str = "machine_hash";

/// The facts that must be equal, each with its name.
fn key(record: &RunRecord) -> [(&'static str, String); 5] {
    let device = &record.device;
    let which = match device.kind {
        DeviceKind::Real => format!("real {}", device.uuid),
        DeviceKind::Virtual => {
            let hash = device.facts.get(MACHINE_HASH).map_or("unknown", String::as_str);
            format!("virtual, machine file {hash}")
        }
    };
    [
        ("device", which),
        ("driver", device.driver.clone()),
        ("tenants", record.plan.tenants.to_string()),
        ("profile's service time in ns", record.plan.service_ns.to_string()),
        ("scoring", record.scoring.clone()),
    ]
}

/// Whether two records hold the same trials: one record passed twice, or two virtual runs with one
/// seed, whose trials are identical.
fn same_trials(a: &RunRecord, b: &RunRecord) -> bool {
    if a.device.kind == DeviceKind::Virtual && a.provenance.clock == "virtual" {
        return a.seed == b.seed;
    }
    a.provenance.started_at == b.provenance.started_at && a.provenance.host == b.provenance.host
}

/// Sorts other records, each with its name on the command line, into those whose trials count with
/// those of `record` and those whose trials do not.
#[must_use]
pub fn pool(record: &RunRecord, others: &[(String, &RunRecord)]) -> Pooled {
    let mut pooled = Pooled::default();
    let mut taken: Vec<&RunRecord> = vec![record];
    let own = key(record);
    for (name, other) in others {
        let theirs = key(other);
        let machine_unknown = record.device.kind == DeviceKind::Virtual
            && !record.device.facts.contains_key(MACHINE_HASH);
        let differing = own.iter().zip(&theirs).find(|(a, b)| a != b);
        let why = if let Some(((what, own), (_, theirs))) = differing {
            format!("its {what} is {theirs}, not {own}")
        } else if machine_unknown {
            "neither record names its machine file".to_owned()
        } else if taken.iter().any(|known| same_trials(known, other)) {
            "its trials are those of another record that counts".to_owned()
        } else {
            taken.push(other);
            pooled.earlier.push(other.fault_trials.clone());
            continue;
        };
        pooled.left_out.push(RecordLeftOut { record: name.clone(), reason: why });
    }
    pooled
}
