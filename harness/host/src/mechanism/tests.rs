//! Checks of the whole catalogue of mechanisms.

use std::collections::BTreeSet;

use gpubench_catalogue::mechanism;
use gpubench_plan::profile::options::{LimitBy, Priority};
use gpubench_plan::profile::{Overrides, Profile, built_in};
use gpubench_record::{Condition, MechanismProperties, ProofTime, Sharing};

use super::facts::HamiLibrary;
use super::interface::About;
use super::{
    CATALOGUE, HostFacts, Mechanism, MechanismContext, Observation, OverLimit, TenantObservation,
    find,
};
use crate::device::mig::{InstanceProfile, Placement};

#[test]
fn every_line_of_the_catalogue_names_its_mechanism() {
    let here: Vec<&str> = CATALOGUE.iter().map(|mechanism| mechanism.name()).collect();
    assert_eq!(here, mechanism::names());
}

#[test]
fn entries_have_a_summary_and_options_with_accepted_values() {
    for entry in CATALOGUE.iter().map(|mechanism| mechanism.entry()) {
        let summary = entry.summary;
        assert!(summary.len() > 20 && !summary.ends_with('.'), "{entry:?}");
        let keys: BTreeSet<&str> = entry.options.iter().map(|option| option.key).collect();
        assert_eq!(keys.len(), entry.options.len(), "{}", entry.name);
        let About { since, needs, changes, proof, deployed_by } = entry.about;
        let about = [since, needs, changes, proof, deployed_by];
        assert!(about.iter().all(|text| !text.is_empty()), "{}: {about:?}", entry.name);
        for option in entry.options {
            assert!(!option.accepted.is_empty(), "{}.{}", entry.name, option.key);
        }
    }
}

#[test]
fn every_option_is_a_key_of_the_profile_and_every_key_is_listed() -> Result<(), serde_json::Error> {
    let schema = serde_json::to_value(schemars::schema_for!(gpubench_plan::profile::Profile))?;
    for entry in CATALOGUE.iter().map(|mechanism| mechanism.entry()) {
        let table = &schema["properties"][entry.name];
        let pointer = table["$ref"].as_str().unwrap_or_default().trim_start_matches('#');
        let keys = schema.pointer(pointer).map(|table| &table["properties"]);
        let keys: BTreeSet<&str> = keys
            .filter(|_| !pointer.is_empty())
            .and_then(|keys| keys.as_object())
            .map(|keys| keys.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let listed: BTreeSet<&str> = entry.options.iter().map(|option| option.key).collect();
        assert_eq!(listed, keys, "{}", entry.name);
    }
    Ok(())
}

#[test]
fn one_mechanism_is_the_reference_and_changes_nothing() {
    let is_reference = |mechanism: &&&dyn Mechanism| mechanism.entry().properties().is_reference();
    let found: Vec<_> = CATALOGUE.iter().filter(is_reference).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name(), mechanism::REFERENCE);
    assert!(!found[0].entry().reconfigures);
}

#[test]
fn each_kind_of_sharing_has_one_unprotected_form() {
    for sharing in [Sharing::InTime, Sharing::InSpace] {
        let of_it = CATALOGUE.iter().map(|mechanism| mechanism.entry());
        let forms = of_it.filter(|entry| entry.sharing == sharing && entry.unprotected.is_some());
        assert_eq!(forms.count(), 1, "{sharing:?}");
    }
}

/// Records of format 1.0 are read with a frozen table. It must agree with the mechanisms, which
/// have not changed since.
#[test]
fn the_table_of_format_1_0_agrees_with_the_catalogue() {
    const OF_1_0: [&str; 12] = [
        "exclusive",
        "exclusive-process",
        "time-slicing",
        "mps",
        "mps-quota",
        "mps-static",
        "mps-memory",
        "mig",
        "mig-mps",
        "hami",
        "green-context",
        "stream-priority",
    ];
    for name in OF_1_0 {
        let now = find(name).map(|mechanism| mechanism.entry().properties());
        assert_eq!(now, Some(MechanismProperties::of_format_1_0(name)), "{name}");
    }
}

// For every mechanism, hosts on which its tenants run and it is not in force. Each row of the
// guide's table is planted here and must cost the cell a proof.

const LIBRARY: &str = "/usr/local/vgpu/libvgpu.so";
const SMS: u32 = 132;

/// The state of a host, and what gpubench then observes.
type Row = (&'static str, &'static str, fn(&mut Observation));

const ROWS: &[Row] = &[
    ("exclusive", "another process has a context", |o| set_listed(o, &[7, 9])),
    ("exclusive", "the victim runs on another device", |o| set_listed(o, &[])),
    ("exclusive-process", "the mode was set back during the run", |o| {
        o.compute_mode = Some("DEFAULT".to_owned());
    }),
    ("exclusive-process", "a second process got a context", |o| o.access_attempts[0].1 = None),
    ("exclusive-process", "a process that was there before stays", |o| set_listed(o, &[7, 9])),
    ("time-slicing", "an MPS server of another user serves the tenants", |o| {
        o.mps_clients = Some(vec![7, 8]);
    }),
    ("time-slicing", "a tenant runs on another device", |o| set_listed(o, &[7])),
    ("time-slicing-capped", "an MPS server joins the contexts", |o| {
        o.mps_clients = Some(vec![7, 8]);
    }),
    ("time-slicing-capped", "the contexts overlap", |o| o.tenants[1].spans_ns = Some(vec![(0, 9)])),
    ("time-slicing-capped", "the cap is on another device", |o| {
        fact(o, 0, "memory_total_bytes", &(80_000_u64 << 20).to_string());
    }),
    ("time-slicing-capped", "the cap is shown and not enforced", |o| grant(o)),
    ("mps", "a tenant does not find the daemon and runs beside it", |o| {
        o.daemon_clients = Some(Ok(vec![7]));
    }),
    ("mps", "the daemon has ended", |o| {
        o.daemon_clients = Some(Err("no answer".to_owned()));
    }),
    ("mps", "an inherited or default percentage limits a tenant", |o| fact(o, 1, "sm_count", "66")),
    ("mps-quota", "a tenant ignores its percentage", |o| fact(o, 0, "sm_count", "132")),
    ("mps-quota", "the memory limit is not applied", |o| grant(o)),
    ("mps-quota", "the neighbours lost their lower priority", |o| o.tenants[1].priority = None),
    ("mps-static", "the partitions overlap", |o| o.tenants[1].sm_placement = Some(vec![1, 3])),
    ("mps-static", "a tenant is not in its partition", |o| {
        o.daemon_clients = Some(Ok(vec![8]));
    }),
    ("mps-memory", "the control group does not limit the device", |o| {
        fact(o, 0, "memory_total_bytes", &(80_000_u64 << 20).to_string());
    }),
    ("mps-memory", "the limit is shown and not enforced", |o| grant(o)),
    ("mps-memory", "an inherited percentage limits a tenant", |o| fact(o, 0, "sm_count", "40")),
    ("mig", "both tenants are in one instance", |o| {
        fact(o, 1, "uuid", "aa-1");
        o.tenants[1].visible_devices = Some("MIG-aa-1".to_owned());
    }),
    ("mig", "a tenant sees another instance than its own", |o| fact(o, 1, "uuid", "aa-3")),
    ("mig", "an instance is smaller than its profile", |o| fact(o, 0, "sm_count", "16")),
    ("mig", "NVML lists a tenant in another instance", |o| o.instances[1].1 = Some(5)),
    ("mig", "NVML reports no instance", |o| o.instances.clear()),
    ("mig-mps", "a tenant shares the instance in time slices", |o| {
        o.daemon_clients = Some(Ok(vec![7]));
    }),
    ("mig-mps", "the instance is another one", |o| fact(o, 0, "uuid", "aa-2")),
    ("mig-mps", "NVML lists a tenant in another instance", |o| o.instances[0].1 = Some(5)),
    ("hami", "a static program or one without LD_PRELOAD", |o| {
        o.tenants[1].mapped = Some(vec!["/usr/lib/libc.so.6".to_owned()]);
    }),
    ("hami", "the mapped files cannot be read", |o| o.tenants[1].mapped = None),
    ("hami", "the tenant finds the driver's own functions", |o| {
        fact(o, 0, "allocator_file", "/usr/lib/libcuda.so.1");
    }),
    ("hami", "the library shows the whole device", |o| {
        fact(o, 0, "memory_total_bytes", &(80_000_u64 << 20).to_string());
    }),
    ("hami", "an allocation beyond the limit is granted", |o| grant(o)),
    ("hami", "the SM limiter does not find its process", |o| {
        o.tenants[0].library_faults = vec!["host pid is error!".to_owned()];
    }),
    ("green-context", "the partitions overlap", |o| o.tenants[1].sm_placement = Some(vec![2, 3])),
    ("green-context", "the tenants are in two processes", |o| {
        o.ours = vec![7, 8];
        set_listed(o, &[7, 8]);
    }),
    ("stream-priority", "the driver has no range of priorities", |o| {
        for slot in [0, 1] {
            for name in ["stream_priority", "stream_priority_least", "stream_priority_greatest"] {
                fact(o, slot, name, "0");
            }
        }
    }),
    ("stream-priority", "both streams have one priority", |o| fact(o, 0, "stream_priority", "0")),
    ("stream-priority", "another process has a context", |o| set_listed(o, &[7, 9])),
];

fn set_listed(o: &mut Observation, pids: &[u32]) {
    o.listed = Some(pids.to_vec());
}

fn fact(o: &mut Observation, slot: usize, name: &str, value: &str) {
    o.tenants[slot].facts.insert(name.to_owned(), value.to_owned());
}

/// The driver grants the neighbour an allocation beyond its limit.
fn grant(o: &mut Observation) {
    o.tenants[1].over_limit = Some(OverLimit { bytes: 1 << 30, refused_with: None });
}

/// A profile of an H100.
pub(super) fn profile_of(
    id: u32,
    name: &str,
    slices: u32,
    sm_count: u32,
    starts: &[u32],
    size: u32,
) -> InstanceProfile {
    InstanceProfile {
        id,
        name: name.to_owned(),
        slices,
        max: starts.len() as u32,
        sm_count,
        memory_mib: 10_000 * u64::from(size),
        placements: starts.iter().map(|&start| Placement { start, size }).collect(),
    }
}

/// A host on which every mechanism runs.
fn facts() -> HostFacts {
    HostFacts {
        memory_mib: 80_000,
        mig: Some(false),
        allow_reconfigure: true,
        may_change_settings: true,
        mig_profiles: vec![
            profile_of(9, "3g.40gb", 3, 60, &[0, 4], 4),
            profile_of(0, "7g.80gb", 7, SMS, &[0], 8),
        ],
        hami: Some(HamiLibrary { path: LIBRARY.into(), hash: "00".to_owned(), problem: None }),
        ..HostFacts::default()
    }
}

fn profile() -> Profile {
    let mut profile = built_in("smoke", &Overrides::default()).expect("built in");
    profile.mps_quota.memory_pct = 50;
    profile.mps_quota.neighbours = Priority::BelowNormal;
    profile.mps_memory.by = LimitBy::Cgroup;
    profile
}

/// What is observed where the mechanism is in force.
fn in_force(mechanism: &'static dyn Mechanism) -> Observation {
    let name = mechanism.name();
    let is_native = mechanism.entry().properties().is_reference();
    let has_threads = mechanism.entry().properties().has_threads();
    let sms = match name {
        "mig" => "60",
        "mps-quota" => "66",
        _ => "132",
    };
    let memory_mib: u64 = match name {
        "mps-memory" | "time-slicing-capped" | "hami" => 40_000,
        "mig" => 39_000,
        _ => 79_000,
    };
    let tenant = |slot: usize| {
        let instance = if name == "mig-mps" { 1 } else { slot + 1 };
        let mut tenant = TenantObservation {
            slot,
            pid: if slot == 0 || has_threads { 7 } else { 8 },
            sm_placement: Some(vec![2 * slot as u32 + 1, 2 * slot as u32 + 2]),
            spans_ns: Some(vec![(3 * slot as u64, 3 * slot as u64 + 2), (8, 8)]),
            over_limit: Some(OverLimit { bytes: 1 << 30, refused_with: Some(2) }),
            mapped: Some(vec![LIBRARY.to_owned()]),
            visible_devices: Some(format!("MIG-aa-{instance}")),
            handed_instance: Some(instance as u32),
            opened_at_ns: Some(1),
            checked_at_ns: Some(2),
            priority: (slot == 1).then(|| "1".to_owned()),
            ..TenantObservation::default()
        };
        let priority = if slot == 0 { "-5" } else { "0" };
        for (name, value) in [
            ("sm_count", sms),
            ("memory_total_bytes", &(memory_mib << 20).to_string()),
            ("uuid", &format!("aa-{instance}")),
            ("allocator_file", LIBRARY),
            ("stream_priority", priority),
            ("stream_priority_least", "0"),
            ("stream_priority_greatest", "-5"),
        ] {
            tenant.facts.insert(name.to_owned(), value.to_owned());
        }
        tenant
    };
    let alone = is_native || mechanism.entry().properties().admits_one_tenant();
    let ours = match (alone, has_threads) {
        (true, _) => vec![7],
        (_, true) => vec![7, 7],
        _ => vec![7, 8],
    };
    let mut listed = ours.clone();
    listed.dedup();
    let condition = if is_native { Condition::N } else { Condition::C };
    let slots = if alone { 1 } else { 2 };
    Observation {
        tenants: (0..slots).map(tenant).collect(),
        instances: (0..slots)
            .map(|slot| (tenant(slot).pid, tenant(slot).handed_instance))
            .collect(),
        listed: Some(listed.clone()),
        mps_clients: Some(Vec::new()),
        daemon_clients: Some(Ok(listed)),
        access_attempts: vec![("neighbour-1".to_owned(), Some(46))],
        compute_mode: Some("EXCLUSIVE_PROCESS".to_owned()),
        native_sm_count: Some(SMS),
        listed_at_ns: Some(3),
        attempted_at_ns: Some(1),
        ..Observation::new(condition, ours)
    }
}

/// The required proofs that an observation lacks, and the proofs that do not hold.
fn faults(mechanism: &'static dyn Mechanism, observed: &Observation) -> Vec<String> {
    let (profile, facts) = (profile(), facts());
    let cx = MechanismContext { profile: &profile, facts: &facts };
    let proofs = mechanism.prove(&cx, observed);
    let required = mechanism.configuration(&cx).required.into_iter();
    let required = required.map(super::Requirement::planned);
    let missing = required.filter(|one| !proofs.iter().any(|proof| proof.is(one)));
    let missing = missing.map(|one| format!("missing: {}", one.check));
    let against = proofs.iter().filter(|proof| !proof.holds);
    let against = against.map(|proof| format!("{}: {}", proof.check, proof.evidence));
    missing.chain(against).collect()
}

#[test]
fn a_host_that_only_looks_as_if_a_mechanism_were_in_force_costs_a_proof() {
    for &mechanism in CATALOGUE {
        let good = in_force(mechanism);
        assert_eq!(faults(mechanism, &good), [""; 0], "{}", mechanism.name());
    }
    for (name, host, plant) in ROWS {
        let mechanism = find(name).expect("a mechanism of the catalogue");
        let mut observed = in_force(mechanism);
        plant(&mut observed);
        let faults = faults(mechanism, &observed);
        assert!(!faults.is_empty(), "{name}: {host}");
    }
}

#[test]
fn every_mechanism_has_a_row_and_a_proof_during_the_samples() {
    let (profile, facts) = (profile(), facts());
    let cx = MechanismContext { profile: &profile, facts: &facts };
    for &mechanism in CATALOGUE {
        let name = mechanism.name();
        assert!(ROWS.iter().any(|row| row.0 == name), "{name} has no row");
        let required = mechanism.configuration(&cx).required.into_iter();
        let during = required.filter(|one| one.planned().when == ProofTime::During);
        assert!(during.count() > 0, "{name} is not observed during the samples");
    }
}

#[test]
fn the_guide_has_the_same_rows() {
    let guide = include_str!("README.md");
    let section = guide.split("\n## ").find(|part| part.starts_with("When a proof could"));
    let lines = section.unwrap_or_default().lines();
    let listed: Vec<(&str, &str)> = lines
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` | "))
        .filter_map(|(name, rest)| Some((name, rest.split(" | ").next()?)))
        .collect();
    let rows: Vec<(&str, &str)> = ROWS.iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(listed, rows);
}

#[test]
fn the_guide_of_mechanisms_has_every_recipe() -> Result<(), gpubench_plan::PlanError> {
    let guide = include_str!("README.md");
    for one in gpubench_plan::ledger()?.recipes {
        let cells = [one.recipe, one.wrong, one.working].map(|text| text.replace('|', "\\|"));
        let row = format!("| {} |\n", cells.join(" | "));
        assert!(guide.contains(&row), "{row}");
    }
    Ok(())
}
