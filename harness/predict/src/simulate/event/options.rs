//! Options of the discrete-event model, as written in TOML or flags.

use serde::{Deserialize, Serialize};

use crate::error::{NOT_NEGATIVE, PERCENT, PredictError, Range, SHARE};
use crate::mig;
use crate::rng::{FastRng, Stream};
use crate::simulate::scenario::MILLISECONDS;

/// HAMi-core refills its tokens every 120 ms (multiprocess_utilization_watcher.c, 8f3a89c).
const HAMI_REFILL_MS: f64 = 120.0;

/// Options of the discrete-event model. Each default is the behaviour of the reference model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventOptions {
    pub service: ServiceKind,
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
    pub tenant: Vec<EventTenant>,
}

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
        mig::place(table, &profiles).map(|_| ()).ok_or_else(|| {
            let accepted = format!("a mix that fits on {}", table.name);
            PredictError::value("event.mig", self.mig.join(","), &accepted)
        })
    }

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

// Distributions of service times and arrivals, with the means of the scenario.

/// Above it a single request is longer than all others together.
const LOG_NORMAL_CV: Range =
    Range::new("a number above 0 and at most 100", |cv| cv > 0.0 && cv <= 100.0);
const HYPER_EXPONENTIAL_CV: Range =
    Range::new("a number from 1 to 100", |cv| (1.0..=100.0).contains(&cv));

/// Distribution of service times. `cv` is the standard deviation over the mean.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServiceKind {
    #[default]
    Deterministic,
    /// Exponential: cv 1.
    Exponential,
    /// A sum of exponentials: cv below 1.
    Erlang { stages: u32 },
    /// Log-normal: skewed, like kernels with data-dependent run times.
    LogNormal {
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Two exponentials of balanced means: a few long requests among many short ones; cv above 1.
    HyperExponential {
        /// Standard deviation over mean.
        cv: f64,
    },
}

impl ServiceKind {
    pub fn check(self) -> Result<(), PredictError> {
        match self {
            Self::Deterministic | Self::Exponential => Ok(()),
            Self::Erlang { stages } if (1..=1000).contains(&stages) => Ok(()),
            Self::Erlang { stages } => {
                Err(PredictError::value("service.stages", stages, "a number from 1 to 1000"))
            }
            Self::LogNormal { cv } => LOG_NORMAL_CV.check("service.cv", cv),
            Self::HyperExponential { cv } => HYPER_EXPONENTIAL_CV.check("service.cv", cv),
        }
    }

    pub fn draw(self, stream: &mut FastRng) -> f64 {
        match self {
            Self::Deterministic => 1.0,
            Self::Exponential => stream.standard_exponential(),
            Self::Erlang { stages } => {
                let sum: f64 = (0..stages).map(|_| stream.standard_exponential()).sum();
                sum / f64::from(stages)
            }
            Self::LogNormal { cv } => {
                let variance = (1.0 + cv * cv).ln();
                (variance.sqrt() * stream.standard_normal() - variance / 2.0).exp()
            }
            Self::HyperExponential { cv } => {
                // Balanced means (Whitt 1982): each branch contributes half of the work.
                let imbalance = ((cv * cv - 1.0) / (cv * cv + 1.0)).sqrt();
                let probability = (1.0 + imbalance) / 2.0;
                let branch =
                    if stream.uniform() < probability { probability } else { 1.0 - probability };
                stream.standard_exponential() / (2.0 * branch)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ArrivalKind {
    #[default]
    Poisson,
    /// Poisson in bursts with pauses between them, at the mean rate of the scenario.
    Bursts { on_ms: f64, off_ms: f64 },
}

impl ArrivalKind {
    pub fn check(self) -> Result<(), PredictError> {
        let Self::Bursts { on_ms, off_ms } = self else { return Ok(()) };
        MILLISECONDS.check("arrivals.on_ms", on_ms)?;
        MILLISECONDS.check("arrivals.off_ms", off_ms)
    }
}

/// The arrival times of one tenant, in order.
#[derive(Debug)]
pub struct ArrivalTimes {
    kind: ArrivalKind,
    gaps: FastRng,
    phases: FastRng,
    mean_gap_s: f64,
    now_s: f64,
    on_left_s: f64,
}

impl ArrivalTimes {
    /// Arrivals with a mean gap, with one stream for gaps and one for bursts.
    pub fn new(kind: ArrivalKind, mean_gap_s: f64, gaps: FastRng, phases: FastRng) -> Self {
        Self { kind, gaps, phases, mean_gap_s, now_s: 0.0, on_left_s: 0.0 }
    }

    fn pass_bursts(&mut self, mut active_s: f64, on_ms: f64, off_ms: f64) {
        while active_s > self.on_left_s {
            active_s -= self.on_left_s;
            let pause_s = off_ms / 1000.0 * self.phases.standard_exponential();
            self.now_s += self.on_left_s + pause_s;
            self.on_left_s = on_ms / 1000.0 * self.phases.standard_exponential();
        }
        self.on_left_s -= active_s;
        self.now_s += active_s;
    }
}

impl Iterator for ArrivalTimes {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let gap_s = self.mean_gap_s * self.gaps.standard_exponential();
        match self.kind {
            ArrivalKind::Poisson => self.now_s += gap_s,
            ArrivalKind::Bursts { on_ms, off_ms } => {
                // The rate in a burst is higher, so that the mean rate over bursts and pauses
                // holds.
                self.pass_bursts(gap_s * on_ms / (on_ms + off_ms), on_ms, off_ms);
            }
        }
        Some(self.now_s)
    }
}
