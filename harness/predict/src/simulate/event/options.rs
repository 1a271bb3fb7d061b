//! Options of the discrete-event model, as written in TOML or flags.

use super::super::ranges::MILLISECONDS;
use super::variates::{ArrivalKind, ServiceKind};
use crate::error::{NOT_NEGATIVE, PERCENT, PredictError, SHARE};
use crate::mig;
use serde::{Deserialize, Serialize};

/// HAMi-core refills its tokens every 120 ms (multiprocess_utilization_watcher.c, 8f3a89c).
const HAMI_REFILL_MS: f64 = 120.0;

/// Options of the discrete-event model. Each default is the behaviour of the reference model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventOptions {
    /// Distribution of service times.
    pub service: ServiceKind,
    /// Distribution of arrivals.
    pub arrivals: ArrivalKind,
    /// Time-slicing and HAMi: longest time slice; `None`: a request runs to its end.
    pub quantum_ms: Option<f64>,
    /// Warm-up at the start, excluded from the figures, in which the queues fill.
    pub warmup_s: f64,
    /// GPU that defines the MIG profiles of `mig`.
    pub gpu: Option<String>,
    /// One MIG profile per tenant, in place of equal slices.
    pub mig: Vec<String>,
    /// MPS: share of the SMs that one request occupies; 1 / tenants by default.
    pub width: Option<f64>,
    /// MPS: active-thread percentage of each tenant.
    pub mps_percent: f64,
    /// HAMi: percentage of device time of each tenant; equal shares by default.
    pub hami_percent: Option<f64>,
    /// HAMi: time between refills of the tokens.
    pub hami_refill_ms: f64,
    /// HAMi: capacity of the token bucket; one refill by default.
    pub hami_bucket_ms: Option<f64>,
    /// Tenants with their own values.
    pub tenant: Vec<EventTenant>,
}

/// Own values of one tenant in the discrete-event model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTenant {
    /// Index of the tenant, from 0.
    pub index: u32,
    /// Share of the SMs that one of its requests occupies.
    pub width: Option<f64>,
    /// MPS: its active-thread percentage.
    pub mps_percent: Option<f64>,
    /// HAMi: its percentage of device time.
    pub hami_percent: Option<f64>,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self {
            service: ServiceKind::default(),
            arrivals: ArrivalKind::default(),
            quantum_ms: None,
            warmup_s: 0.0,
            gpu: None,
            mig: Vec::new(),
            width: None,
            mps_percent: 100.0,
            hami_percent: None,
            hami_refill_ms: HAMI_REFILL_MS,
            hami_bucket_ms: None,
            tenant: Vec::new(),
        }
    }
}

impl EventOptions {
    /// Checks the values for a number of tenants and a duration, and returns the first problem.
    pub fn check(&self, tenants: u32, duration_s: f64) -> Result<(), PredictError> {
        self.service.check()?;
        self.arrivals.check()?;
        MILLISECONDS.check_set("event.quantum_ms", self.quantum_ms)?;
        NOT_NEGATIVE.check("event.warmup_s", self.warmup_s)?;
        if self.warmup_s >= duration_s {
            let accepted = format!("less than the duration of {duration_s} s");
            return Err(PredictError::value("event.warmup_s", self.warmup_s, &accepted));
        }
        SHARE.check_set("event.width", self.width)?;
        PERCENT.check("event.mps_percent", self.mps_percent)?;
        PERCENT.check_set("event.hami_percent", self.hami_percent)?;
        MILLISECONDS.check("event.hami_refill_ms", self.hami_refill_ms)?;
        MILLISECONDS.check_set("event.hami_bucket_ms", self.hami_bucket_ms)?;
        for change in &self.tenant {
            change.check(tenants)?;
        }
        self.check_mig(tenants)
    }

    fn check_mig(&self, tenants: u32) -> Result<(), PredictError> {
        if self.mig.is_empty() {
            return Ok(());
        }
        if self.mig.len() != tenants as usize {
            let accepted = format!("one profile for each of {tenants} tenants");
            return Err(PredictError::value("event.mig", self.mig.join(","), &accepted));
        }
        let table = self.mig_table()?;
        let profiles: Result<Vec<_>, _> = self.mig.iter().map(|name| table.profile(name)).collect();
        let profiles = profiles?;
        if let Some(unknown) = profiles.iter().find(|profile| profile.sm.is_none()) {
            return Err(PredictError::Missing {
                what: format!("the SM count of {} on {}", unknown.name, table.name),
                remedy: "give slice_speed, or measure it and use --calibrate".to_owned(),
            });
        }
        mig::placement::place(table, &profiles).map(|_| ()).ok_or_else(|| {
            let accepted = format!("a mix that fits on {}", table.name);
            PredictError::value("event.mig", self.mig.join(","), &accepted)
        })
    }

    /// The MIG profiles of the GPU.
    pub(super) fn mig_table(&self) -> Result<&'static mig::Table, PredictError> {
        let name = self.gpu.as_deref().ok_or_else(|| PredictError::Missing {
            what: "event.gpu".to_owned(),
            remedy: "name the GPU that defines the MIG profiles".to_owned(),
        })?;
        mig::table(name)
    }
}

impl EventTenant {
    fn check(&self, tenants: u32) -> Result<(), PredictError> {
        if self.index >= tenants {
            let accepted = format!("a tenant from 0 to {}", tenants - 1);
            return Err(PredictError::value("event.tenant.index", self.index, &accepted));
        }
        SHARE.check_set("event.tenant.width", self.width)?;
        PERCENT.check_set("event.tenant.mps_percent", self.mps_percent)?;
        PERCENT.check_set("event.tenant.hami_percent", self.hami_percent)
    }
}
