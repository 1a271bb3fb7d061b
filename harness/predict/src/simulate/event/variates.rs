//! Distributions of service times and arrivals, with the means of the scenario.

use super::super::ranges::MILLISECONDS;
use crate::error::{PredictError, Range};
use crate::rng::{FastRng, Stream};
use serde::{Deserialize, Serialize};

/// Above it a single request is longer than all others together.
const LOG_NORMAL_CV: Range =
    Range::new("a number above 0 and at most 100", |cv| cv > 0.0 && cv <= 100.0);
const HYPER_EXPONENTIAL_CV: Range =
    Range::new("a number from 1 to 100", |cv| (1.0..=100.0).contains(&cv));

/// Distribution of service times. `cv` is the standard deviation over the mean.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServiceKind {
    /// Constant.
    #[default]
    Deterministic,
    /// Exponential: cv 1.
    Exponential,
    /// A sum of exponentials: cv below 1.
    Erlang {
        /// Number of exponentials.
        stages: u32,
    },
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
    /// Checks the parameters.
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

    /// A draw with mean one.
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

/// Distribution of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ArrivalKind {
    /// Poisson.
    #[default]
    Poisson,
    /// Poisson in bursts with pauses between them, at the mean rate of the scenario.
    Bursts {
        /// Mean length of a burst.
        on_ms: f64,
        /// Mean length of a pause.
        off_ms: f64,
    },
}

impl ArrivalKind {
    /// Checks the parameters.
    pub fn check(self) -> Result<(), PredictError> {
        let Self::Bursts { on_ms, off_ms } = self else {
            return Ok(());
        };
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
    /// Rest of the burst.
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
