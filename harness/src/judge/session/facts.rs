//! What may differ between two sessions: identity of device, driver, host, profile, calibration.

use std::collections::BTreeMap;

use gpubench_compare::diff::comparability::LAYOUT;
use gpubench_record::{CellResult, Margins, Plan, RunRecord};
use gpubench_reports::store::Reading;

use crate::device::THROTTLE_REASONS;
use crate::judge::provenance::OTHER_GPUS;

/// The metric of the SM clock, in MHz.
pub(super) const SM_CLOCK: &str = "sm_clock";
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
    facts
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
pub(super) const METRICS: [&str; 3] = [SM_CLOCK, TEMPERATURE, THROTTLE_REASONS];

/// The mean SM clock of each cell, in MHz.
pub(super) struct Clocks<'a>(BTreeMap<&'a str, f64>);

impl<'a> Clocks<'a> {
    pub(super) fn of(telemetry: &'a [Reading]) -> Self {
        let mut sums: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
        let rows = telemetry.iter();
        for row in rows.filter(|row| row.metric == SM_CLOCK && row.value > 0.0) {
            let sum = sums.entry(&row.cell).or_default();
            *sum = (sum.0 + row.value, sum.1 + 1);
        }
        Self(sums.into_iter().map(|(cell, (sum, n))| (cell, sum / f64::from(n))).collect())
    }

    /// The logarithm of the clock of a cell; `None` where it has no reading.
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
