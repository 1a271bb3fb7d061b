//! The conventions that turn figures into levels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The thresholds of `scoring-v4`. Conventions, versioned with the profile; not findings.
///
/// Records of older scoring keep theirs, under the old names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thresholds {
    /// Lower bound of retention for L3.
    pub retention_l3: f64,
    /// Lower bound of retention for L2.
    pub retention_l2: f64,
    /// Lower bound of retention for L1: clearly more than an even split between two gives.
    #[serde(default = "retention_l1")]
    pub retention_l1: f64,
    /// Lower bound of the guarantee for L3; below it isolation is bought with capacity.
    pub guarantee_l3: f64,
    /// Upper bound of service jitter, in native medians, for `Negligible`.
    pub jitter_negligible: f64,
    /// Upper bound of service jitter, in native medians, for `Low-Medium`.
    #[serde(default = "service_jitter_low_medium")]
    pub service_jitter_low_medium: f64,
    /// Upper bound that the unprotected rate ratio must not exceed, or the aggressor is too weak.
    pub effectiveness_max: f64,
    /// Least share of a closed-loop window in which both tenants must have work outstanding.
    pub overlap_min: f64,
    /// Drift of the native rate from the first block to the last, and of N' from N, that a row
    /// mentions, as a log ratio.
    pub drift_max: f64,
    /// Fewest open-loop requests in a block for a p99.
    #[serde(alias = "jitter_requests_min")]
    pub tail_requests_min: u32,
    /// Bound of the isolation index between L0 and L1, in records up to `scoring-v3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_l1: Option<f64>,
    /// Upper bound of the growth of the tail for `Low-Medium`, in records up to `scoring-v3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_low_medium: Option<f64>,
}

/// The bound in records up to `scoring-v3`, which have none.
const fn retention_l1() -> f64 {
    0.60
}

/// The same of service jitter.
const fn service_jitter_low_medium() -> f64 {
    0.50
}

impl Thresholds {
    /// Each bound that differs from the built-in one: its key, its value, and the built-in value.
    pub fn changed(&self) -> Vec<(&'static str, f64, f64)> {
        let built_in = Self::default();
        type Of = fn(&Thresholds) -> f64;
        let all: [(_, Of); 10] = [
            ("retention_l3", |of| of.retention_l3),
            ("retention_l2", |of| of.retention_l2),
            ("retention_l1", |of| of.retention_l1),
            ("guarantee_l3", |of| of.guarantee_l3),
            ("jitter_negligible", |of| of.jitter_negligible),
            ("service_jitter_low_medium", |of| of.service_jitter_low_medium),
            ("effectiveness_max", |of| of.effectiveness_max),
            ("overlap_min", |of| of.overlap_min),
            ("drift_max", |of| of.drift_max),
            ("tail_requests_min", |of| f64::from(of.tail_requests_min)),
        ];
        let all = all.into_iter().map(|(key, of)| (key, of(self), of(&built_in)));
        all.filter(|(_, own, built_in)| own != built_in).collect()
    }
}

impl Thresholds {
    /// The bounds of levels that a profile set, each with the built-in one, in one sentence; `None`
    /// where it set none.
    pub fn notice(&self) -> Option<String> {
        let texts: Vec<String> = self
            .changed()
            .into_iter()
            .map(|(key, own, built_in)| format!("{key} is {own} (built in: {built_in})"))
            .collect();
        let all = texts.join(", ");
        (!all.is_empty()).then(|| format!("THRESHOLDS CHANGED BY THE PROFILE: {all}"))
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            retention_l3: 0.95,
            retention_l2: 0.80,
            retention_l1: retention_l1(),
            guarantee_l3: 0.80,
            jitter_negligible: 0.10,
            service_jitter_low_medium: service_jitter_low_medium(),
            effectiveness_max: 0.90,
            overlap_min: 0.95,
            drift_max: 0.05,
            tail_requests_min: 368,
            index_l1: None,
            jitter_low_medium: None,
        }
    }
}
