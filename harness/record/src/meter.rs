//! Counters of the vendor that are read at the ends of a closed loop: energy, and what each tenant
//! is said to have used of the device; and the rows that are made of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::figures::Estimate;

named! {
    /// What a profile has read around closed loops.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Meter {
        /// Energy of the device.
        Energy = "energy",
        /// Use of the device by process and by instance.
        Utilisation = "utilisation",
    }
}

named! {
    /// A counter, by its name in dcgm-exporter, or by the call of NVML where that has none.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Counter {
        /// NVML's counter of energy, in mJ.
        Energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        /// Readings of the power, times the time, where there is no counter of energy.
        Power = "DCGM_FI_DEV_POWER_USAGE",
        /// Percent of the time with a kernel of any process.
        Device = "DCGM_FI_DEV_GPU_UTIL",
        /// Percent of the time with a kernel of a process.
        Process = "nvmlDeviceGetProcessUtilization",
        /// The same over the life of the process.
        Accounting = "nvmlDeviceGetAccountingStats",
        /// Percent of the time with a busy engine, of an instance or the device (GPM).
        Engine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        /// Percent of SMs with a resident warp, of an instance or the device (GPM).
        Sm = "DCGM_FI_PROF_SM_ACTIVE",
    }
}

/// What one counter said of one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeterReading {
    /// The counter.
    pub counter: Counter,
    /// The tenant that it speaks of; absent for the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether no tenant worked, as in the pause before the open loop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// Length of the window in ns.
    pub over_ns: u64,
    /// Energy in mJ, or percent; absent where it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Why it was not read, or how it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Energy of one variant and victim, alone or beside tenants that do the same, over all blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// Workload of every tenant.
    pub victim: String,
    /// The condition: N, S or C.
    pub condition: Condition,
    /// Working tenants.
    pub tenants: u32,
    /// The counter that was read; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Counter>,
    /// Why there are no figures, or how they were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Energy of the device over the requests of all tenants.
    pub joules: Option<Estimate>,
    /// The part of it that the idle device with the same contexts takes.
    pub idle_joules: Option<Estimate>,
    /// Power of the device.
    pub watts: Option<Estimate>,
    /// Energy for a request over that under time-slicing, with as many tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_time_slicing: Option<Estimate>,
    /// The part of the power of each tenant, split by the work that each got done. No counter has
    /// the energy of a tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_work: Vec<TenantShare>,
}

/// A figure of one tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantShare {
    /// Name of the tenant.
    pub tenant: String,
    /// The figure.
    pub share: Estimate,
}

/// What a counter says that a tenant used, beside the work that it got done, over all blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttributionRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// Workload of every tenant.
    pub victim: String,
    /// Working tenants.
    pub tenants: u32,
    /// The counter.
    pub counter: Counter,
    /// The tenant.
    pub tenant: String,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The counter itself, in percent.
    pub percent: Option<Estimate>,
    /// The tenant's part of the sum over tenants. A counter of the device says the same of each.
    pub reported: Option<Estimate>,
    /// Its part of the work of all tenants.
    pub known: Option<Estimate>,
    /// Reported less known.
    pub error: Option<Estimate>,
}
