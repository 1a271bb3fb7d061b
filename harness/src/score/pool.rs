//! Which records' fault trials may be counted together: those of one device under one driver, with
//! as many tenants and the same rules. Virtual trials count with those of the same machine file
//! alone, and never with real ones.

use gpubench_record::{DeviceKind, FaultResult, RecordLeftOut, RunRecord};

/// The trials that may be counted with those of one record, and why others may not.
#[derive(Debug, Default)]
pub struct Pooled {
    /// The trials of each other record that counts.
    pub earlier: Vec<Vec<FaultResult>>,
    /// What was left out, and why.
    pub left_out: Vec<RecordLeftOut>,
}

/// Name of the fact that identifies a virtual machine, whose UUID follows from its seed.
pub const MACHINE_HASH: &str = "machine_hash";

/// What has to be the same, each with its name.
fn key(record: &RunRecord) -> [(&'static str, String); 5] {
    let device = &record.device;
    let which = match device.kind {
        DeviceKind::Real => format!("real {}", device.uuid),
        DeviceKind::Virtual => {
            let hash = device
                .facts
                .get(MACHINE_HASH)
                .map_or("untold", String::as_str);
            format!("virtual, machine file {hash}")
        }
    };
    [
        ("device", which),
        ("driver", device.driver.clone()),
        ("tenants", record.plan.tenants.to_string()),
        (
            "profile's service time in ns",
            record.plan.service_ns.to_string(),
        ),
        ("scoring", record.scoring.clone()),
    ]
}

/// Whether two records have the same trials: one that is given twice, or virtual ones of one seed,
/// whose trials differ in nothing.
fn same_trials(a: &RunRecord, b: &RunRecord) -> bool {
    if a.device.kind == DeviceKind::Virtual && a.provenance.clock == "virtual" {
        return a.seed == b.seed;
    }
    a.provenance.started_at == b.provenance.started_at && a.provenance.host == b.provenance.host
}

/// Holds other records, each with the name it was given by, against `record`.
#[must_use]
pub fn pool(record: &RunRecord, others: &[(String, &RunRecord)]) -> Pooled {
    let mut pooled = Pooled::default();
    let mut taken: Vec<&RunRecord> = vec![record];
    let own = key(record);
    for (name, other) in others {
        let theirs = key(other);
        let untold = record.device.kind == DeviceKind::Virtual
            && !record.device.facts.contains_key(MACHINE_HASH);
        let differing = own.iter().zip(&theirs).find(|(a, b)| a != b);
        let why = if let Some(((what, own), (_, theirs))) = differing {
            format!("its {what} is {theirs}, not {own}")
        } else if untold {
            "neither record says on which machine file it ran".to_owned()
        } else if taken.iter().any(|known| same_trials(known, other)) {
            "its trials are those of another record that counts".to_owned()
        } else {
            taken.push(other);
            pooled.earlier.push(other.fault_trials.clone());
            continue;
        };
        pooled.left_out.push(RecordLeftOut {
            record: name.clone(),
            reason: why,
        });
    }
    pooled
}
