//! What sharing takes under a mechanism, by the figures of records.

use gpubench_record::{Estimate, ProbeFound, Proof, RunRecord, TelemetryRow, TimePart};

use super::evidence::{Evidence, none};
use super::need::{Need, Step, What};
use super::{Candidate, instances, is_measured, properties, steps};

/// Compute slices of a GPU with MIG; an A30 has four.
const SLICES: f64 = 7.0;
const SLICES_A30: f64 = 4.0;

/// The check of the proof that has the SMs of instances.
const INSTANCE_PROOF: &str = "each tenant sees the SMs and the memory of its instance";

/// The cost of one mechanism; `None` where the records do not have it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    /// Whether any record measured the mechanism.
    pub is_measured: bool,
    /// Whether its tenants are threads of one process.
    pub has_threads: bool,
    /// The smallest rate beside idle neighbours over the native rate.
    pub efficiency: Option<Estimate>,
    /// The least and the most work of all tenants together, over pairs, in devices.
    pub throughput: Option<[Estimate; 2]>,
    /// Compute that no tenant can use.
    pub unusable: Option<Unusable>,
    /// Memory that a tenant's context takes.
    pub overhead_bytes: Option<u64>,
    /// Tenants with the needed memory that fit.
    pub tenants_fit: Option<u64>,
    /// Mean energy of the board for the work of one native request, in millijoules: least and most
    /// over pairs.
    pub energy_mj: Option<[f64; 2]>,
    pub steps: Vec<Step>,
    /// The changes of the host, as planned.
    pub changes: Vec<String>,
}

/// Compute that a mechanism sets aside.
#[derive(Debug, Clone, PartialEq)]
pub struct Unusable {
    /// Share of the device that no tenant can use.
    pub share: f64,
    /// Most of the device that one tenant can use while the others are idle.
    pub ceiling: f64,
    /// What both follow from.
    pub basis: &'static str,
}

impl Cost {
    pub(super) fn of(records: &[&RunRecord], variant: &str, needs: &[Need]) -> Self {
        let planned = |run: &&&RunRecord| properties(run, variant).is_some();
        let Some(run) = records.iter().find(planned) else {
            return Self::default();
        };
        let rows = records.iter().flat_map(|run| &run.matrix);
        let efficiency = rows.filter(|row| row.variant == variant);
        let efficiency = efficiency.filter_map(|row| row.efficiency.clone());
        let stp = records.iter().flat_map(|run| {
            let own = run.operator.iter().filter(|row| row.variant == variant);
            own.filter(|row| row.tenants == run.plan.tenants).map(|row| row.stp.clone())
        });
        let by_value = |a: &Estimate, b: &Estimate| a.value.total_cmp(&b.value);
        let stp: Vec<Estimate> = stp.collect();
        let ends = stp.iter().cloned().min_by(by_value).zip(stp.iter().cloned().max_by(by_value));
        let memory = records.iter().find_map(|run| Memory::of(run, variant));
        let wanted = needs.iter().find_map(|need| match need.what {
            What::Memory(bytes) => Some(bytes),
            _ => None,
        });
        Self {
            is_measured: records.iter().any(|run| is_measured(run, variant)),
            has_threads: properties(run, variant).is_some_and(|of| of.has_threads()),
            efficiency: efficiency.min_by(by_value),
            throughput: ends.map(|(least, most)| [least, most]),
            unusable: records.iter().find_map(|run| unusable(run, variant)),
            overhead_bytes: memory.as_ref().map(|memory| memory.overhead),
            tenants_fit: memory.zip(wanted).map(|(memory, bytes)| memory.fit(bytes)),
            energy_mj: None,
            steps: steps(run, variant).unwrap_or_default(),
            changes: run
                .plan
                .mechanisms
                .iter()
                .find(|one| one.variant == variant)
                .map(|one| one.host_changes.clone())
                .unwrap_or_default(),
        }
    }
}

/// What the probe of allocations found.
struct Memory {
    device: u64,
    /// What one tenant allocated at most, where all have room for their limits.
    limited: Option<u64>,
    overhead: u64,
    tenants: u32,
}

impl Memory {
    fn of(run: &RunRecord, variant: &str) -> Option<Self> {
        let mut probes = run.probes.iter().filter(|probe| probe.variant == variant);
        probes.find_map(|probe| {
            let ProbeFound::Cap { limit_bytes, device_bytes, in_use_bytes, calls } = &probe.found
            else {
                return None;
            };
            let allocated = calls.iter().find(|call| call.call == "cuMemAlloc")?.bytes.0;
            let tenants = run.plan.tenants;
            // Limits that together exceed the device hold no memory ready.
            let part = device_bytes / u64::from(tenants.max(1));
            let shared = device_bytes.saturating_sub(allocated) / u64::from(tenants.max(1));
            Some(Self {
                device: *device_bytes,
                limited: limit_bytes.filter(|limit| *limit <= part).map(|_| allocated),
                overhead: if limit_bytes.is_some() { *in_use_bytes } else { shared },
                tenants,
            })
        })
    }

    fn fit(&self, bytes: u64) -> u64 {
        match self.limited {
            Some(own) => {
                if bytes <= own {
                    self.tenants.into()
                } else {
                    0
                }
            }
            None => self.device / bytes.saturating_add(self.overhead).max(1),
        }
    }

    /// What each of so many tenants can hold.
    fn each(&self, tenants: u32) -> u64 {
        let share = self.device / u64::from(tenants.max(1));
        self.limited.unwrap_or_else(|| share.saturating_sub(self.overhead))
    }
}

/// The memory that each tenant can hold, with as many tenants as were measured.
pub(super) fn memory(run: &RunRecord, variant: &str, what: &What) -> Option<Evidence> {
    let (What::Memory(_), Some(_)) = (what, properties(run, variant)) else { return None };
    let tenants = run.plan.tenants;
    let exact = |bytes: u64, reason: String| Evidence {
        hi: bytes as f64,
        figure: Some(format!("{} MiB for each of {tenants} tenants", bytes >> 20)),
        tenants,
        ..none("", reason)
    };
    let Some(found) = Memory::of(run, variant) else {
        // More than its part of the device no tenant can hold beside equal ones.
        let part = (run.device.memory_mib << 20) / u64::from(tenants.max(1));
        return Some(exact(part, "not measured: memory of each tenant".to_owned()));
    };
    let each = found.each(tenants);
    Some(Evidence { lo: each as f64, ..exact(each, String::new()) })
}

fn unusable(run: &RunRecord, variant: &str) -> Option<Unusable> {
    properties(run, variant)?;
    let tenants = f64::from(run.plan.tenants);
    let shared = |ceiling: f64, basis| {
        let share = (1.0 - tenants * ceiling).max(0.0);
        Some(Unusable { share, ceiling: ceiling.min(1.0), basis })
    };
    let configured = run.probes.iter().find_map(|probe| match &probe.found {
        ProbeFound::Share { configured_ppm, .. } if probe.variant == variant => *configured_ppm,
        _ => None,
    });
    if let Some(ppm) = configured {
        return shared(f64::from(ppm) / 1e6, "the share that the probe found configured");
    }
    if let Some(slices) = instances(variant) {
        // A slice has no fixed number of SMs: 3g of an H100 has 60 of 132.
        let (parts, all, basis) = match instance_sms(run, variant) {
            Some(sms) => (sms, f64::from(run.device.sm_count), "the SMs of its instances"),
            None if run.device.name.contains("A30") => (slices, SLICES_A30, "its layout"),
            None => (slices, SLICES, "its layout"),
        };
        let used: f64 = parts.iter().sum();
        let ceiling = parts.first()? / all;
        return Some(Unusable { share: (1.0 - used / all).max(0.0), ceiling, basis });
    }
    let options = variant.trim_end_matches(']').split_once('[').map_or("", |(_, options)| options);
    let percent =
        |key: &str| options.split(',').find_map(|one| one.strip_prefix(key)?.parse::<f64>().ok());
    match percent("pct=").or_else(|| percent("sm=")) {
        Some(percent) => shared(percent / 100.0, "its percentage"),
        None => Some(Unusable { share: 0.0, ceiling: 1.0, basis: "it sets nothing aside" }),
    }
}

/// The SMs of the instance of each tenant, by the proof that compares them with what tenants see:
/// `victim Some(60) SMs and Some(40448) MiB in 3g.40gb (60 SMs, 40448 MiB), ...`.
fn instance_sms(run: &RunRecord, variant: &str) -> Option<Vec<f64>> {
    let row = run.mechanisms.iter().find(|row| row.variant == variant)?;
    let is_own = |proof: &&Proof| proof.holds && proof.check == INSTANCE_PROOF;
    let evidence = row.proof.iter().find(is_own)?.evidence.split(" SMs, ");
    let sms = evidence.filter_map(|part| part.rsplit('(').next()?.parse().ok());
    let sms: Vec<f64> = sms.collect();
    (sms.len() as u32 == run.plan.tenants && run.device.sm_count > 0).then_some(sms)
}

/// What changes of the host took in these records, of all mechanisms together; `None` where none
/// kept its time.
pub fn host_time_ns(records: &[&RunRecord]) -> Option<u64> {
    let parts = [TimePart::Switches, TimePart::Daemons];
    let has_time = records.iter().any(|run| !run.time.is_empty());
    let spent = records.iter().flat_map(|run| &run.time);
    has_time.then(|| spent.filter(|one| parts.contains(&one.part)).map(|one| one.ns).sum())
}

/// Fills in the energy for the work of one native request, from readings of the board's power in
/// contended cells: power over the work of all tenants, times the native time of a request.
pub fn add_energy(candidates: &mut [Candidate], run: &RunRecord, telemetry: &[TelemetryRow]) {
    for one in candidates.iter_mut().filter(|one| one.cost.energy_mj.is_none()) {
        let own = run.operator.iter().filter(|row| row.variant == one.variant);
        let each: Vec<f64> = own
            .filter_map(|row| {
                let is_of = |cell: &&gpubench_record::CellResult| {
                    cell.cell.variant == row.variant
                        && cell.cell.victim == row.victim
                        && cell.cell.aggressor.as_ref() == Some(&row.aggressor)
                        // Other phases offer another load.
                        && cell.cell.closed_only
                        && cell.cell.sparse.is_none()
                };
                let cells: Vec<&str> =
                    run.cells.iter().filter(is_of).map(|cell| cell.cell.id.as_str()).collect();
                let power = telemetry.iter().filter(|reading| {
                    reading.metric == "power" && cells.contains(&reading.cell.as_str())
                });
                let (sum, count) =
                    power.fold((0.0, 0.0), |(sum, count), one| (sum + one.value, count + 1.0));
                let native_s = run.plan.service_ns as f64 / 1e9;
                (count > 0.0 && row.stp.value > 0.0).then(|| sum / count * native_s / row.stp.value)
            })
            .collect();
        let least = each.iter().copied().reduce(f64::min);
        one.cost.energy_mj = least.zip(each.iter().copied().reduce(f64::max)).map(|(a, b)| [a, b]);
    }
}

/// The mechanisms that no other one beats: at least as isolated on every axis and at most as
/// costly, and better in one of them. Intervals that overlap are no difference.
pub fn front(candidates: &[Candidate]) -> Vec<&Candidate> {
    let beats = |a: usize, b: usize| {
        let (one, two) = (&candidates[a].cost, &candidates[b].cost);
        let axes = || candidates[a].isolation.iter().zip(&candidates[b].isolation);
        // What neither has is no difference; what one lacks can be any level.
        let holds = axes().all(|(a, b)| {
            let open = |of: &[f64; 2]| of.iter().all(|end| end.is_infinite());
            (open(a) && open(b)) || a[0].max(0.0) >= b[1].min(3.0)
        });
        let stronger = axes().any(|(a, b)| a[0] > b[1]);
        let share = |cost: &Cost| cost.unusable.as_ref().map_or(1.0, |unusable| unusable.share);
        let costs = [
            compare_ends(one.efficiency.as_ref(), two.efficiency.as_ref()),
            compare_ends(
                one.throughput.as_ref().map(|of| &of[0]),
                two.throughput.as_ref().map(|of| &of[0]),
            ),
            share(two).total_cmp(&share(one)),
            two.has_threads.cmp(&one.has_threads),
            two.steps.cmp(&one.steps),
        ];
        holds
            && costs.iter().all(|one| one.is_ge())
            && (stronger || costs.iter().any(|one| one.is_gt()))
    };
    let measured = |at: &usize| {
        let one = &candidates[*at];
        let is_finite = |ends: &[f64; 2]| ends.iter().any(|end| end.is_finite());
        let rates = one.cost.efficiency.is_some() || one.cost.throughput.is_some();
        one.refusal.is_none() && (rates || one.isolation.iter().any(is_finite))
    };
    let all = || (0..candidates.len()).filter(measured);
    all().filter(|&b| !all().any(|a| beats(a, b))).map(|at| &candidates[at]).collect()
}

/// Whether the first figure is shown to be larger, or smaller.
fn compare_ends(one: Option<&Estimate>, two: Option<&Estimate>) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match (one, two) {
        (Some(one), Some(two)) if one.lo > two.hi => Greater,
        (Some(one), Some(two)) if one.hi < two.lo => Less,
        _ => Equal,
    }
}
