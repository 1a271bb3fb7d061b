//! What may differ between two sessions: identity of device, driver, host, profile, calibration.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_compare::diff::comparability::{LAYOUT, PROCESS, keys_of};
use gpubench_compare::diff::{KnownFrom, Repeatability, SESSIONS_MIN};
use gpubench_compare::session::Count;
use gpubench_compare::{Metric, Row, RowKey, Session};
use gpubench_host::device::THROTTLE_REASONS;
use gpubench_record::{
    Axis, CellResult, FaultTrial, Margins, MatrixRow, MechanismRow, OutcomeKind, Plan, RunRecord,
    SessionLatencies, Spread, VictimSpread,
};
use gpubench_stats::summary::mean;
use gpubench_stats::two_sample::SessionSpread;
use gpubench_store::Reading;

use crate::error::ExpectedError;
use crate::verbs::calibration;
use crate::verbs::provenance::OTHER_GPUS;

pub(super) const SM_CLOCK: &str = "sm_clock";
/// The metric of the power that the device draws.
pub(super) const POWER: &str = "power";
/// The metric of the temperature, in degrees Celsius.
const TEMPERATURE: &str = "temperature";

/// NVML's reasons that hold a clock down against the load: power cap, thermal and hardware
/// slowdowns, power brake (`nvmlClocksEventReason*` of nvml.h). Idle and application clocks are
/// none.
const HELD_DOWN: u64 = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

/// The facts by their names in `gpubench diff --vary`; a fact that the record lacks is absent.
pub(super) fn of(run: &RunRecord) -> BTreeMap<String, String> {
    let device = &run.device;
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    let of_device = |name: &str| device.facts.get(name).cloned();
    let of_host = |name: &str| run.provenance.host.get(name).cloned();
    let joined = |names: [&str; 2]| {
        let values: Option<Vec<String>> = names.iter().map(|name| of_device(name)).collect();
        Some(values?.join("/"))
    };
    put("device", Some(device.kind.as_str().to_owned()));
    put("clock", Some(run.provenance.clock.clone()));
    put("scoring", Some(run.scoring.clone()));
    put("profile", Some(run.profile.hash.clone()));
    put("seed", Some(run.plan.seed.to_string()));
    put("rotation", rotation(&run.plan));
    put("calibration", Some(run.calibration.hash.clone()));
    put("pairs", Some(pairs(run)));
    put("tenants", Some(run.plan.tenants.to_string()));
    put("product", Some(device.name.clone()));
    put("pci-id", device.pci_id.clone());
    put("memory", Some(format!("{} MiB", device.memory_mib)));
    put("ecc", of_device("ecc"));
    put("mig-mode", of_device("mig_mode"));
    put("driver", Some(device.driver.clone()));
    put("cuda", Some(device.cuda.clone()));
    put("uuid", Some(device.uuid.clone()));
    put("vbios", of_device("vbios"));
    put("power-limit", of_device("power_limit_mw"));
    put("max-clocks", joined(["max_sm_clock_mhz", "max_memory_clock_mhz"]));
    put("pcie", joined(["pcie_generation", "pcie_width"]));
    put("compute-mode", of_device("compute_mode"));
    put("virtualization", of_device("virtualization"));
    put("cpu", of_host("cpu"));
    put("cores", of_host("cores"));
    put("kernel", of_host("kernel"));
    put("governor", of_host("governor"));
    put("cpu-quota", of_host("cgroup_cpu_max"));
    put("other-gpus", Some(beside(of_host(OTHER_GPUS))));
    put("gpubench", Some(run.provenance.gpubench.clone()));
    put("hostname", of_host("hostname"));
    put("machine", of_device("machine_hash"));
    put("margins", run.plan.margins.map(margins));
    for mechanism in &run.plan.mechanisms {
        let name = format!("{LAYOUT}{}", mechanism.variant);
        put(&name, Some(mechanism.host_changes.join("; ")));
    }
    for row in run.mechanisms.iter().filter(|row| !row.tenants.is_empty()) {
        facts.insert(format!("{PROCESS}{}", row.variant), processes(run, row));
    }
    facts.extend(keys_of(&profile(run)));
    facts
}

/// The variables and libraries of each tenant. Versions of the driver and names of devices are
/// facts of their own.
fn processes(run: &RunRecord, row: &MechanismRow) -> String {
    let tenants = row.tenants.iter().map(|(tenant, process)| {
        let variables = process.environment.iter().map(|(name, value)| {
            let is_device = name == "CUDA_VISIBLE_DEVICES";
            format!("{name}={}", if is_device { "*" } else { value })
        });
        let paths = process.libraries.iter();
        let paths = paths.map(|(path, kind)| format!("{path} ({})", kind.as_str()));
        let parts: Vec<String> = variables.chain(paths).collect();
        format!("{tenant}: {}", parts.join(" "))
    });
    tenants.collect::<Vec<_>>().join("; ").replace(&run.device.driver, "*")
}

/// The keys of the profile, as far as the plan keeps them.
fn profile(run: &RunRecord) -> serde_json::Value {
    let plan = &run.plan;
    let mechanisms: Vec<&str> = plan.mechanisms.iter().map(|one| one.variant.as_str()).collect();
    serde_json::json!({
        "axes": plan.axes,
        "blocks": plan.blocks,
        "bursts": plan.bursts,
        "cell": plan.durations,
        "jitter_pairs": plan.jitter_pairs,
        "kernels": run.calibration.basis.as_ref().map(|basis| &basis.ptx_hash),
        "load": plan.load * f64::from(plan.tenants),
        "mechanisms": mechanisms,
        "neighbours": plan.neighbours,
        "probes": plan.probes,
        "service_ns": plan.service_ns,
        "share": plan.share,
        "slo_ns": plan.slo_ns,
        "slo_share": plan.slo_share,
        "soak": plan.soak,
        "sweep": plan.sweep,
        "telemetry_period_ns": plan.telemetry_period_ns,
        "tenants": plan.tenants,
        "thresholds": plan.thresholds,
        "user-victim": plan.user_victim,
    })
}

/// The service time of this run, where others of its rotation have another one.
fn rotation(plan: &Plan) -> Option<String> {
    let others = &plan.rotation.as_ref()?.services_not_planned_ns;
    let ms = plan.service_ns as f64 / 1e6;
    (!others.is_empty()).then(|| format!("requests of {ms} ms"))
}

/// How many GPUs were measured at the same time: which ones makes no difference.
fn beside(others: Option<String>) -> String {
    let count = others.map_or(0, |others| others.split(", ").count());
    match count {
        0 => "none".to_owned(),
        more => more.to_string(),
    }
}

fn margins(margins: Margins) -> String {
    let percent = |share: f64| 100.0 * share;
    format!(
        "ratio {} %, p99 {} %, jitter {} %, survival {} points",
        percent(margins.ratio),
        percent(margins.p99),
        percent(margins.jitter),
        percent(margins.survival)
    )
}

fn pairs(run: &RunRecord) -> String {
    let pairs = run.plan.pairs.iter();
    let names = pairs.map(|pair| {
        format!("{}: {} beside {}", pair.sub_axis.as_str(), pair.victim, pair.aggressor)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The metrics of the telemetry that a session is made from.
pub(super) const METRICS: [&str; 4] = [SM_CLOCK, POWER, TEMPERATURE, THROTTLE_REASONS];

/// The mean of a metric over the readings of each cell.
pub(super) struct Means<'a>(BTreeMap<&'a str, f64>);

impl<'a> Means<'a> {
    pub(super) fn of(telemetry: &'a [Reading], metric: &str) -> Self {
        let mut sums: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
        let rows = telemetry.iter();
        for row in rows.filter(|row| row.metric == metric && row.value > 0.0) {
            let sum = sums.entry(&row.cell).or_default();
            *sum = (sum.0 + row.value, sum.1 + 1);
        }
        Self(sums.into_iter().map(|(cell, (sum, n))| (cell, sum / f64::from(n))).collect())
    }

    /// The logarithm of that of a cell; `None` where it has no reading.
    pub(super) fn ln(&self, cell: &CellResult) -> Option<f64> {
        Some(self.0.get(cell.cell.id.as_str())?.ln())
    }
}

/// Medians over the readings in cells, and the share of readings with a clock held down.
pub(super) fn levels(telemetry: &[Reading]) -> BTreeMap<String, f64> {
    let mut levels = BTreeMap::new();
    for (metric, name) in [(SM_CLOCK, "sm_clock_mhz"), (TEMPERATURE, "temperature_c")] {
        let values = readings(telemetry, metric);
        if let Ok(median) = gpubench_stats::Sorted::new(values).and_then(|sorted| sorted.median()) {
            levels.insert(name.to_owned(), median);
        }
    }
    let reasons = readings(telemetry, THROTTLE_REASONS);
    if !reasons.is_empty() {
        let held = reasons.iter().filter(|bits| **bits as u64 & HELD_DOWN != 0);
        let share = held.count() as f64 / reasons.len() as f64;
        levels.insert("throttled_ratio".to_owned(), share);
    }
    levels
}

fn readings(telemetry: &[Reading], metric: &str) -> Vec<f64> {
    let rows = telemetry.iter();
    rows.filter(|row| row.metric == metric && !row.cell.is_empty()).map(|row| row.value).collect()
}

// What `doctor --calibrate` measured on a GPU, for comparisons of its sessions.

/// What is known of the spread between sessions of each row of these: by the sessions that were
/// kept of their GPU with their calibration, else by its nights, else by a published file of its
/// model. A kept spread that does not count is handed to `say`.
pub fn known_spread(
    sides: [&[Session]; 2],
    nights: BTreeMap<RowKey, Repeatability>,
    published: Option<&Spread>,
    say: impl Fn(&str),
) -> Result<BTreeMap<RowKey, Repeatability>, ExpectedError> {
    let sessions = || sides.into_iter().flatten();
    let of = |name| common(sessions(), name);
    let kept = match of("uuid") {
        Some(uuid) => calibration::known(uuid)?,
        None => None,
    };
    let counts = |kept: &Spread| of("calibration") == Some(kept.calibration.as_str());
    if let Some(other) = kept.as_ref().filter(|kept| !counts(kept)) {
        say(&format!(
            "the spread that doctor --calibrate kept of this GPU does not count: it belongs to \
             calibration {:.12}, and these records have another one",
            other.calibration
        ));
    }
    let kept = kept.filter(counts);
    let published = published.filter(|published| {
        (of("product"), of("device")) == (Some(&published.name), Some(&published.kind))
    });
    let rows = sessions().flat_map(|session| &session.rows);
    let keys: BTreeSet<&RowKey> =
        rows.filter(|(_, row)| row.series().is_some()).map(|(key, _)| key.as_ref()).collect();
    let mut found = BTreeMap::new();
    for key in keys {
        let by = |spread: Option<&Spread>, from| {
            let known = spread?.victims.get(&key.victim).map(|victim| means(victim, key.metric))?;
            (known.len() >= SESSIONS_MIN).then(|| Repeatability::of_sessions(&known, from))
        };
        let known = by(kept.as_ref(), KnownFrom::Calibration)
            .or_else(|| nights.get(key).copied().map(Ok))
            .or_else(|| by(published, KnownFrom::Published));
        let failed =
            |error| ExpectedError::internal(format!("the spread of {}: {error}", key.victim));
        if let Some(known) = known.transpose().map_err(failed)? {
            found.insert(key.clone(), known);
        }
    }
    Ok(found)
}

fn common<'a>(mut sessions: impl Iterator<Item = &'a Session>, fact: &str) -> Option<&'a str> {
    let value = |session: &'a Session| session.facts.get(fact).map(String::as_str);
    let first = value(sessions.next()?)?;
    sessions.all(|session| value(session) == Some(first)).then_some(first)
}

/// What the sessions of a victim alone say about the sessions of a metric: one number each.
///
/// A ratio of two cells of a session spreads as that of two native cells; where the native rate
/// itself spreads more, that counts, because a neighbour can turn one into the other.
fn means(victim: &VictimSpread, metric: Metric) -> Vec<f64> {
    let of_blocks = |of: fn(&[f64; 2]) -> f64| -> Vec<f64> {
        let sessions = victim.logs.iter();
        let logs = sessions.map(|blocks| blocks.iter().map(of).collect::<Vec<f64>>());
        logs.filter_map(|logs| mean(&logs).ok()).collect()
    };
    let of_latencies =
        |of: fn(&SessionLatencies) -> Option<f64>| victim.latencies.iter().filter_map(of).collect();
    let native = of_blocks(|[one, again]| f64::midpoint(*one, *again));
    match metric {
        Metric::Retention | Metric::DoseRetention | Metric::Guarantee | Metric::Efficiency => {
            let ratio = of_blocks(|[one, again]| again - one);
            let sd = |means: &[f64]| SessionSpread::of_sessions(means).map_or(0.0, |one| one.sd);
            if sd(&ratio) > sd(&native) { ratio } else { native }
        }
        Metric::P50 => of_latencies(|one| one.ln_p50),
        Metric::P99 => of_latencies(|one| one.ln_p99),
        Metric::Jitter => of_latencies(|one| one.jitter),
        Metric::Survival => Vec::new(),
        Metric::NativeRate | Metric::SoloRate | Metric::ContendedRate | Metric::AggressorRate => {
            native
        }
    }
}

// Rows of trials: victims of faults that were unharmed, and promises of memory that were kept.

pub(super) fn proportions_of(run: &RunRecord) -> BTreeMap<RowKey, Row> {
    let mut rows = faults(run);
    rows.extend(run.matrix.iter().filter_map(memory));
    rows
}

/// One row for each variant and fault: the trials of its tally in which no victim was harmed.
/// Controls test the instrument and have none.
fn faults(run: &RunRecord) -> BTreeMap<RowKey, Row> {
    let mut rows = BTreeMap::new();
    let scored = |trial: &FaultTrial| trial.facts.control.is_none();
    for trial in run.fault_trials_not_held().filter(|trial| scored(trial)) {
        let why = run.fault_trials_stopped.as_deref();
        let why = why.unwrap_or("the trial did not run");
        rows.insert(key(trial), Row::NotMeasured(why.to_owned()));
    }
    for trial in run.fault_trials.iter().filter(|one| scored(&one.planned)) {
        let of = &trial.planned;
        let mut tallies = run.fault_tallies.iter();
        let tally = tallies.find(|one| (&one.variant, &one.fault) == (&of.variant, &of.fault));
        let row = match tally.filter(|tally| tally.trials > 0) {
            Some(tally) => Row::Counted(Count { good: tally.contained, trials: tally.trials }),
            None => {
                let why = trial.outcome.reason.as_deref();
                Row::Invalid(why.unwrap_or("the trial does not count").to_owned())
            }
        };
        rows.insert(key(of), row);
    }
    rows
}

fn key(trial: &FaultTrial) -> RowKey {
    RowKey {
        variant: trial.variant.clone(),
        axis: format!("{}/{}", Axis::Fault.as_str(), trial.fault),
        victim: trial.victim.clone(),
        aggressor: None,
        dose: None,
        metric: Metric::Survival,
    }
}

fn memory(row: &MatrixRow) -> Option<(RowKey, Row)> {
    if row.axis != Axis::Memory.as_str() {
        return None;
    }
    let share = row.survival.as_ref()?;
    let key = RowKey {
        variant: row.variant.clone(),
        axis: format!("{}/{}", row.axis, row.sub_axis.as_deref().unwrap_or("-")),
        victim: row.victim.clone().unwrap_or_else(|| "-".to_owned()),
        aggressor: row.aggressor.clone(),
        dose: None,
        metric: Metric::Survival,
    };
    let counts = row.outcome.outcome == OutcomeKind::Measured;
    let found = if counts {
        Row::Counted(Count {
            good: (share.value * f64::from(share.n)).round() as u32,
            trials: share.n,
        })
    } else {
        let why = row.outcome.reason.as_deref();
        Row::Invalid(why.unwrap_or("the row does not count").to_owned())
    };
    Some((key, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(json: &str) -> Result<BTreeMap<RowKey, Row>, Box<dyn std::error::Error>> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(json);
        let record = gpubench_store::Record::open(&path)?;
        Ok(proportions_of(record.run()))
    }

    /// The trials of the published records of an H100, as its report counts them.
    #[test]
    fn trials_of_a_real_gpu_are_counted() -> Result<(), Box<dyn std::error::Error>> {
        let folder = "../reports/examples/h100_580.159.04_faults-mps";
        let rows = rows_of(folder)?;
        assert!(!rows.is_empty());
        let counts: Vec<Count> = rows.values().filter_map(Row::count).collect();
        let trials: u32 = counts.iter().map(|one| one.trials).sum();
        let good: u32 = counts.iter().map(|one| one.good).sum();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let record = gpubench_store::Record::open(&path)?;
        let scored = record.run().fault_trials.iter();
        let scored = scored.filter(|one| one.planned.facts.control.is_none());
        let measured: Vec<bool> = scored
            .filter(|one| one.outcome.is_measured())
            .map(gpubench_record::FaultResult::is_contained)
            .collect();
        assert_eq!(trials as usize, measured.len());
        assert_eq!(good as usize, measured.iter().filter(|one| **one).count());
        assert!(good < trials && good > 0, "{good} of {trials}");
        Ok(())
    }
}
