//! Counters of energy and use, between two instants. What a device does not have is an error in
//! words and never 0.

use gpubench_record::{Counter, MeterReading};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};

use super::identity::Reading;
use super::nvml::{Driver, named};

/// A tenant of which counters speak.
#[derive(Debug, Clone, Default)]
pub struct Metered {
    pub tenant: String,
    pub pid: u32,
    /// Its GPU instance, where MIG divides the device.
    pub instance: Option<u32>,
}

/// What is read.
#[derive(Debug, Clone, Default)]
pub struct MeterScope {
    pub energy: bool,
    pub utilisation: bool,
    /// The working tenants, the victim first.
    pub tenants: Vec<Metered>,
}

/// The counters at one instant.
pub struct Mark {
    t_ns: u64,
    energy_mj: Option<Result<u64, NvmlError>>,
    /// Stamp of the newest sample of a process so far.
    last_seen: u64,
    /// Of each instance, or of the device.
    gpm: Vec<(Option<u32>, Result<GpmSample<'static>, NvmlError>)>,
}

const GPM: [(Counter, GpmMetricId); 2] =
    [(Counter::Engine, GpmMetricId::GraphicsUtil), (Counter::Sm, GpmMetricId::SmUtil)];

impl Driver {
    /// Reads all counters of the scope at `t_ns`.
    pub fn mark(&self, scope: &MeterScope, t_ns: u64) -> Mark {
        let energy = || {
            let device = self.whole()?;
            device.total_energy_consumption()
        };
        let mut gpm = Vec::new();
        let mut last_seen = 0;
        if scope.utilisation {
            let mut instances: Vec<_> = scope.tenants.iter().map(|one| one.instance).collect();
            instances.dedup();
            gpm.extend(instances.into_iter().map(|one| (one, self.gpm_of(one))));
            let samples = self.whole().and_then(|device| device.process_utilization_stats(None));
            let stamps = samples.into_iter().flatten().map(|sample| sample.timestamp);
            last_seen = stamps.max().unwrap_or(0);
        }
        Mark { t_ns, energy_mj: scope.energy.then(energy), last_seen, gpm }
    }

    fn gpm_of(&self, instance: Option<u32>) -> Result<GpmSample<'static>, NvmlError> {
        let device = self.whole()?;
        match instance {
            Some(id) => device.gpm_mig_sample(id),
            None => device.gpm_sample(),
        }
    }

    /// The energy between two marks; with `power_mw`, their mean times the time where the device
    /// has no counter.
    pub fn energy(first: &Mark, last: &Mark, idle: bool, power_mw: &[f64]) -> MeterReading {
        let over_ns = last.t_ns.saturating_sub(first.t_ns);
        let reading = |counter, value, reason| MeterReading {
            counter,
            tenant: None,
            idle,
            over_ns,
            value,
            reason,
        };
        let why = match (&first.energy_mj, &last.energy_mj) {
            (Some(Ok(first)), Some(Ok(last))) if last >= first => {
                return reading(Counter::Energy, Some((last - first) as f64), None);
            }
            (Some(Ok(_)), Some(Ok(_))) => "the counter went back".to_owned(),
            (Some(Err(error)), _) | (_, Some(Err(error))) => named(error),
            _ => "it was not read".to_owned(),
        };
        if power_mw.is_empty() {
            let reason = format!("no counter of energy ({why}), and no reading of the power");
            return reading(Counter::Energy, None, Some(reason));
        }
        let mean = power_mw.iter().sum::<f64>() / power_mw.len() as f64;
        let reason = format!("no counter of energy ({why}): {} readings of power", power_mw.len());
        reading(Counter::Power, Some(mean * over_ns as f64 / 1e9), Some(reason))
    }

    /// What the counters of use say of the time between two marks.
    pub fn utilisation(&self, scope: &MeterScope, first: &Mark, last: &Mark) -> Vec<MeterReading> {
        let over_ns = last.t_ns.saturating_sub(first.t_ns);
        let reading =
            |counter, tenant: Option<&Metered>, value: Result<f64, String>| MeterReading {
                counter,
                tenant: tenant.map(|one| one.tenant.clone()),
                idle: false,
                over_ns,
                value: value.as_ref().ok().copied(),
                reason: value.err(),
            };
        let device = self.whole();
        let device = || device.as_ref().map_err(named);
        let rates = device().and_then(|device| device.utilization_rates().map_err(|e| named(&e)));
        let mut found =
            vec![reading(Counter::Device, None, rates.map(|rates| f64::from(rates.gpu)))];
        let samples = device().and_then(|device| {
            device.process_utilization_stats(first.last_seen).map_err(|e| named(&e))
        });
        let accounting =
            device().and_then(|device| device.is_accounting_enabled().map_err(|e| named(&e)));
        for tenant in &scope.tenants {
            let of = samples.as_ref().map_err(Clone::clone).and_then(|samples| {
                let own = samples.iter().filter(|one| one.pid == tenant.pid);
                let latest = own.max_by_key(|one| one.timestamp);
                // Processes that used nothing have no sample; of another namespace, another id.
                latest.map(|one| f64::from(one.sm_util)).ok_or_else(|| no_sample(samples.len()))
            });
            found.push(reading(Counter::Process, Some(tenant), of));
            let of = match &accounting {
                Ok(true) => device()
                    .and_then(|device| {
                        device.accounting_stats_for(tenant.pid).map_err(|e| named(&e))
                    })
                    .and_then(|one| one.gpu_utilization.ok_or_else(|| "no utilisation".to_owned())),
                Ok(false) => Err("accounting mode is off, and root can turn it on".to_owned()),
                Err(error) => Err(error.clone()),
            };
            found.push(reading(Counter::Accounting, Some(tenant), of.map(f64::from)));
        }
        for (instance, (before, after)) in first.gpm.iter().map(|one| one.0).zip(pairs(first, last))
        {
            let values = self.metrics(before, after, &GPM.map(|(_, id)| id));
            for (at, (counter, _)) in GPM.into_iter().enumerate() {
                let value = values.as_ref().map_err(Clone::clone).and_then(|all| all[at].clone());
                match instance {
                    None => found.push(reading(counter, None, value)),
                    Some(_) => {
                        let own = scope.tenants.iter().filter(|one| one.instance == instance);
                        found.extend(own.map(|one| reading(counter, Some(one), value.clone())));
                    }
                }
            }
        }
        found
    }

    fn metrics(
        &self,
        first: &Result<GpmSample<'static>, NvmlError>,
        last: &Result<GpmSample<'static>, NvmlError>,
        ids: &[GpmMetricId],
    ) -> Result<Vec<Result<f64, String>>, String> {
        let (first, last) = match (first, last) {
            (Ok(first), Ok(last)) => (first, last),
            (Err(error), _) | (_, Err(error)) => return Err(named(error)),
        };
        let found = gpm_metrics_get(self.library(), first, last, ids);
        let found = found.map_err(|error| named(&error))?.into_iter();
        Ok(found.map(|one| one.map(|one| one.value).map_err(|error| named(&error))).collect())
    }
}

// The same monitor beside the other counters of the telemetry: what the chip itself says of turns,
// of the aggressor's work and of idle neighbours.

/// Shortest time between two samples: over less the counters say nothing (nvml.h).
const REFRESH_NS: u64 = 100_000_000;

/// The last sample of the device, or of each instance of a tenant.
#[derive(Default)]
pub struct GpmWatch {
    is_supported: Option<bool>,
    t_ns: u64,
    last: Vec<Result<GpmSample<'static>, NvmlError>>,
}

/// What is read: the metric, its unit, and its number.
const WATCHED: [(&str, &str, GpmMetricId); 9] = [
    ("engine_active", "percent", GpmMetricId::GraphicsUtil),
    ("sm_active", "percent", GpmMetricId::SmUtil),
    ("sm_occupancy", "percent", GpmMetricId::SmOccupancy),
    ("tensor_active", "percent", GpmMetricId::AnyTensorUtil),
    ("fp64_active", "percent", GpmMetricId::Fp64Util),
    ("fp32_active", "percent", GpmMetricId::Fp32Util),
    ("dram_bandwidth", "percent", GpmMetricId::DramBwUtil),
    ("pcie_sent", "MiB/s", GpmMetricId::PcieTxPerSec),
    ("pcie_received", "MiB/s", GpmMetricId::PcieRxPerSec),
];

impl Driver {
    /// Takes a sample at `t_ns`, and returns what the monitor says of the time since the last one,
    /// with the name of the tenant where it is of an instance. Nothing before Hopper, and within
    /// the monitor's own period.
    pub fn watch(
        &self,
        watch: &mut GpmWatch,
        tenants: &[Metered],
        t_ns: u64,
    ) -> Vec<(Option<String>, Reading)> {
        let asks = || self.whole().and_then(|device| device.gpm_support()).unwrap_or(false);
        let is_early = !watch.last.is_empty() && t_ns < watch.t_ns + REFRESH_NS;
        if !*watch.is_supported.get_or_insert_with(asks) || is_early {
            return Vec::new();
        }
        let of_instances =
            tenants.iter().filter_map(|one| Some((Some(&one.tenant), one.instance?)));
        let mut scopes: Vec<_> = of_instances.map(|(name, id)| (name, Some(id))).collect();
        if scopes.is_empty() {
            scopes.push((None, None));
        }
        let now: Vec<_> = scopes.iter().map(|(_, instance)| self.gpm_of(*instance)).collect();
        let mut found = Vec::new();
        for ((tenant, _), (first, last)) in scopes.iter().zip(watch.last.iter().zip(&now)) {
            // Counters are for display, and a missing one is absent.
            let values = self.metrics(first, last, &WATCHED.map(|(_, _, id)| id));
            let values = values.into_iter().flatten().zip(WATCHED);
            found.extend(values.filter_map(|(value, (metric, unit, _))| {
                Some(((*tenant).cloned(), Reading { metric, value: value.ok()?, unit }))
            }));
        }
        (watch.last, watch.t_ns) = (now, t_ns);
        found
    }
}

type GpmOf<'m> = &'m Result<GpmSample<'static>, NvmlError>;

fn pairs<'m>(first: &'m Mark, last: &'m Mark) -> impl Iterator<Item = (GpmOf<'m>, GpmOf<'m>)> {
    first.gpm.iter().zip(&last.gpm).map(|((_, first), (_, last))| (first, last))
}

fn no_sample(others: usize) -> String {
    format!("NVML has no sample of the process, and {others} of others")
}
