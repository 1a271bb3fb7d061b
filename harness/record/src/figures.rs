//! The figures of one cell. In JSON they are one object, with the unit in each name.

mod read;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::exit_code::Outcome;
use crate::condition::SubAxis;

/// What one aggressor or victim did in a contended cell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TenantFigures {
    /// Completions per second of an aggressor in the closed loop.
    pub rate_per_s: Option<f64>,
    /// GPU time of all its requests.
    pub gpu_time_ns: Option<f64>,
}

/// Suffixes of the names in JSON that follow the name of a tenant.
const RATE: &str = "_rate_per_s";
const GPU_TIME: &str = "_gpu_time_ns";

/// Declares the figures by their names in JSON, in alphabetical order.
macro_rules! figures {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Figures of one cell, computed from its samples alone. A figure that could not be
        /// computed is `None`, and absent in JSON.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct CellFigures {
            $($(#[$doc])+ pub $name: Option<f64>,)+
            /// By name of the tenant; only in contended cells.
            pub tenants: BTreeMap<String, TenantFigures>,
            /// Figures of other versions, by name.
            pub others: BTreeMap<String, f64>,
        }

        impl CellFigures {
            /// The figures of the cell as a whole, each with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }

            /// The same, to change.
            pub fn named_mut(
                &mut self,
            ) -> impl Iterator<Item = (&'static str, &mut Option<f64>)> {
                [$((stringify!($name), &mut self.$name),)+].into_iter()
            }

            /// Where the figure with this name in JSON belongs.
            fn place(&mut self, name: &str) -> Place<'_> {
                match name {
                    $(stringify!($name) => Place::Known(&mut self.$name),)+
                    other => self.place_of_other(other),
                }
            }
        }
    };
}

figures! {
    /// Rate of the aggressor over the rate of one alone on the device.
    achieved_dose_ratio,
    /// Share of the closed loop in which an aggressor at a dose below 1 had work outstanding.
    aggressor_busy_closed_ratio,
    /// Share of the open loop in which the aggressor had work outstanding.
    aggressor_busy_open_ratio,
    /// Share of the closed loop in which an aggressor had no work outstanding for more than 5 us;
    /// only on the wall clock.
    aggressor_idle_closed_ratio,
    /// Completions per second of all aggressors in the closed loop.
    aggressor_rate_per_s,
    /// Growth of the backlog over the second half of the open loop.
    backlog_slope_per_s,
    /// Standard error of `closed_halves_ln`, from the spread within the cell.
    closed_halves_error_ln,
    /// Mean service in the first half of the closed loop over that in the second, as a logarithm.
    closed_halves_ln,
    /// The most by which lost CPU time can have lowered the rate of the closed loop, as the
    /// logarithm of a ratio; absent where it was not observed.
    closed_rate_loss_max_ln,
    /// Completions per second of the closed loop, from its first request to its last completion.
    closed_rate_per_s,
    /// Median time from issue to completion in the closed loop.
    closed_service_p50_ns,
    /// Speed of the device around the cell over its first speed, as a logarithm: the mean of the
    /// check kernel before and after.
    device_speed_ln,
    /// From the event until the victim had its old rate again; absent where it did not get it.
    event_back_ns,
    /// Requests of the victim that failed after the event.
    event_lost,
    /// The rate of the victim at the end of the window over that before the event.
    event_rate_ratio,
    /// From the event until the first kernel of the restarted neighbour had run.
    event_restarted_ns,
    /// Longest time without a completion of the victim from the event on.
    event_stall_ns,
    /// Time from the event to the end of the window.
    event_window_ns,
    /// Requests completed within the open loop, per second.
    goodput_per_s,
    /// Median GPU time of a request in the closed loop.
    gpu_p50_ns,
    /// 99th percentile of the lateness of requests that were due while the issuer was busy.
    lateness_busy_p99_ns,
    /// The same while it was idle: the lateness of the harness itself.
    lateness_idle_p99_ns,
    /// Requests due in the open loop, per second.
    offered_per_s,
    /// The least that the median can be without the lateness of the harness; only on the wall
    /// clock.
    open_latency_p50_lower_ns,
    /// Median time from schedule to completion in the open loop.
    open_latency_p50_ns,
    /// 90th percentile of the same.
    open_latency_p90_ns,
    /// 99.9th percentile of the same; absent below 3,688 requests or under overload.
    open_latency_p999_ns,
    /// The least that the 99th percentile can be without the lateness of the harness.
    open_latency_p99_lower_ns,
    /// 99th percentile of the same; absent below 368 requests or under overload.
    open_latency_p99_ns,
    /// Median time from issue to completion in the open loop.
    open_service_p50_ns,
    /// Share of the closed loop in which victim and aggressor had work outstanding together.
    overlap_closed_ratio,
    /// Mean clock of the SMs in the closed loop.
    sm_clock_mhz,
}

impl CellFigures {
    /// The figures of a tenant, to set one: a tenant without any is not in JSON.
    pub fn tenant(&mut self, name: &str) -> &mut TenantFigures {
        self.tenants.entry(name.to_owned()).or_default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name().is_empty()
    }

    /// Every figure that exists, by its name in JSON.
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        let tenants = self.tenants.iter().flat_map(|(tenant, figures)| {
            let both = [(RATE, figures.rate_per_s), (GPU_TIME, figures.gpu_time_ns)];
            both.map(|(suffix, value)| (format!("{tenant}{suffix}"), value))
        });
        let named = self.named().map(|(name, value)| (name.to_owned(), value));
        let known = named.chain(tenants).filter_map(|(name, value)| Some((name, value?)));
        self.others.clone().into_iter().chain(known).collect()
    }

    fn place_of_other(&mut self, name: &str) -> Place<'_> {
        if let Some(tenant) = name.strip_suffix(RATE) {
            Place::Known(&mut self.tenant(tenant).rate_per_s)
        } else if let Some(tenant) = name.strip_suffix(GPU_TIME) {
            Place::Known(&mut self.tenant(tenant).gpu_time_ns)
        } else {
            Place::Other(self.others.entry(name.to_owned()).or_default())
        }
    }
}

/// Where a figure is kept.
enum Place<'a> {
    Known(&'a mut Option<f64>),
    Other(&'a mut f64),
}

impl Serialize for CellFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.by_name().serialize(serializer)
    }
}

// A figure with its two ends, which are those of an interval, of a range or of a bound.

/// A figure with its ends, sample count and unit. No figure leaves gpubench without them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Json", into = "Json")]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// What the ends are.
    pub ends: Ends,
    /// The parts of an interval over blocks; absent for every other figure.
    pub parts: Option<Parts>,
    /// Blocks (trials for proportions) behind it.
    pub n: u32,
    /// Its unit: `ratio`, `native medians`, `index`.
    pub unit: String,
}

/// The parts of an interval over blocks: `lo = stat_lo - sys_lo` and `hi = stat_hi + sys_hi`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Lower end of the statistical part, which more blocks narrow.
    pub stat_lo: f64,
    /// Upper end of the statistical part.
    pub stat_hi: f64,
    /// By how much known disturbances lower the lower end; at least 0. No number of blocks narrows
    /// it. Null where the format of the record cannot give it.
    pub sys_lo: Option<f64>,
    /// By how much known disturbances raise the upper end; at least 0.
    pub sys_hi: Option<f64>,
}

/// What the ends of a figure are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
pub enum Ends {
    /// Those of the interval, 95 % unless the plan has several looks; `lo` and `hi` in JSON.
    #[default]
    Interval,
    /// Minimum and maximum of `n` values, which bound no further value; `range` in JSON.
    Range,
    /// The true value is at least `lo`; the upper end is unknown. `at_least` in JSON.
    AtLeast,
    /// The true value is at most `hi`, the limit of detection, and nothing more is known of it: the
    /// victim starved. The value is null in JSON, sorts as 0 and is compared with nothing.
    AtMost,
}

impl Ends {
    /// As in records and CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Range => "range",
            Self::AtLeast => "at least",
            Self::AtMost => "at most",
        }
    }
}

/// A figure as JSON: with `lo` and `hi`, or `range`, or `at_least`, or `hi` alone and no value.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Estimate")]
struct Json {
    /// Null for a bound.
    value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lo: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hi: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(flatten)]
    parts: Option<Parts>,
    n: u32,
    unit: String,
}

/// A figure without its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a figure has a value with lo and hi, or range, or at_least, or no value and hi; found none or \
     several of them"
)]
pub struct NoEnds;

impl TryFrom<Json> for Estimate {
    type Error = NoEnds;

    fn try_from(json: Json) -> Result<Self, NoEnds> {
        let (lo, hi, range, at_least) = (json.lo, json.hi, json.range, json.at_least);
        let (value, ends, [lo, hi]) = match (json.value, lo, hi, range, at_least) {
            (Some(value), Some(lo), Some(hi), None, None) => (value, Ends::Interval, [lo, hi]),
            (Some(value), None, None, Some(range), None) => (value, Ends::Range, range),
            (Some(value), None, None, None, Some(lo)) => {
                (value, Ends::AtLeast, [lo, f64::INFINITY])
            }
            (None, None, Some(hi), None, None) => (0.0, Ends::AtMost, [0.0, hi]),
            _ => return Err(NoEnds),
        };
        Ok(Self { value, lo, hi, ends, parts: json.parts, n: json.n, unit: json.unit })
    }
}

impl From<Estimate> for Json {
    fn from(estimate: Estimate) -> Self {
        let Estimate { lo, hi, ends, .. } = estimate;
        Self {
            value: (ends != Ends::AtMost).then_some(estimate.value),
            lo: (ends == Ends::Interval).then_some(lo),
            hi: matches!(ends, Ends::Interval | Ends::AtMost).then_some(hi),
            range: (ends == Ends::Range).then_some([lo, hi]),
            at_least: (ends == Ends::AtLeast).then_some(lo),
            parts: estimate.parts,
            n: estimate.n,
            unit: estimate.unit,
        }
    }
}

// How the retention of a victim changes with the dose of the aggressor.

/// The dose that the aggressor offers, below 1. Doses order by their size.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dose(pub f64);

impl Dose {
    /// The dose, where it is below 1.
    pub fn below_1(dose: f64) -> Option<Self> {
        (dose < 1.0).then_some(Self(dose))
    }
}

impl PartialEq for Dose {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Dose {}

impl PartialOrd for Dose {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dose {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Dose {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl std::fmt::Display for Dose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hundredth of a percent is the smallest step that is shown.
        write!(f, "{} %", (self.0 * 1e4).round() / 100.0)
    }
}

/// One variant, victim and aggressor at every planned dose. The row of the matrix is that of dose
/// 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoseCurve {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The sub-axis of the pair.
    pub sub_axis: SubAxis,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// Outcome of the dose area with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The planned doses, rising.
    pub points: Vec<DosePoint>,
    /// Mean height of the piecewise linear curve through the retentions, which is 1 at dose 0.
    pub area: Option<Estimate>,
    /// Steps between two doses at which the retention rises; empty for a curve that only falls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rises: Vec<DoseRise>,
}

/// One dose of the curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DosePoint {
    /// The planned fraction of the time in which the aggressor has work outstanding.
    pub offered: f64,
    /// Work that the aggressor completed over its native peak rate. A mechanism that throttles the
    /// aggressor keeps this below the offered dose.
    pub achieved: Option<Estimate>,
    /// Closed-loop rate over the solo rate of the same blocks under the mechanism.
    pub retention: Option<Estimate>,
    /// Why blocks do not count, the first reason only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A step of the curve at which more load from the neighbour leaves the victim more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoseRise {
    /// The lower dose.
    pub from: f64,
    /// The higher dose.
    pub to: f64,
    /// Retention at the higher dose over that at the lower dose. Its interval lies above 1.
    pub ratio: Estimate,
}

#[cfg(test)]
mod tests {
    use super::{CellFigures, Ends, Estimate, Parts};

    /// Names of tenants and of other versions are kept, and the order is that of the names.
    #[test]
    fn json_is_read_and_written_byte_for_byte() -> serde_json::Result<()> {
        let json = concat!(
            r#"{"aggressor_rate_per_s":3.0,"closed_rate_per_s":1.5,"#,
            r#""neighbour-1_gpu_time_ns":8.0,"neighbour-1_rate_per_s":2.0,"zeta":7.0}"#
        );
        let figures: CellFigures = serde_json::from_str(json)?;
        assert_eq!(figures.closed_rate_per_s, Some(1.5));
        assert_eq!(figures.aggressor_rate_per_s, Some(3.0));
        assert_eq!(figures.tenants["neighbour-1"].rate_per_s, Some(2.0));
        assert_eq!(figures.tenants["neighbour-1"].gpu_time_ns, Some(8.0));
        assert_eq!(figures.others["zeta"], 7.0);
        assert_eq!(serde_json::to_string(&figures)?, json);
        assert!(!figures.is_empty() && CellFigures::default().is_empty());
        let mut names: Vec<&str> = figures.named().map(|(name, _)| name).collect();
        let declared = names.clone();
        names.sort_unstable();
        assert_eq!(names, declared, "declared in the order of JSON");
        Ok(())
    }

    #[test]
    fn ends_have_the_key_of_their_kind_and_read_back() -> Result<(), serde_json::Error> {
        for (ends, hi, keys) in [
            (Ends::Interval, 3.0, r#""lo":1.0,"hi":3.0"#),
            (Ends::Range, 3.0, r#""range":[1.0,3.0]"#),
            (Ends::AtLeast, f64::INFINITY, r#""at_least":1.0"#),
        ] {
            let estimate = Estimate {
                value: 2.0,
                lo: 1.0,
                hi,
                ends,
                parts: None,
                n: 3,
                unit: "ratio".to_owned(),
            };
            let text = serde_json::to_string(&estimate)?;
            assert_eq!(text, format!(r#"{{"value":2.0,{keys},"n":3,"unit":"ratio"}}"#));
            assert_eq!(serde_json::from_str::<Estimate>(&text)?, estimate);
        }
        let bound = r#"{"value":null,"hi":0.005,"n":3,"unit":"ratio"}"#;
        let estimate: Estimate = serde_json::from_str(bound)?;
        assert_eq!((estimate.value, estimate.ends), (0.0, Ends::AtMost));
        assert_eq!(serde_json::to_string(&estimate)?, bound);
        for text in [
            r#"{"value":null,"lo":0.0,"hi":1.0,"n":3,"unit":"ratio"}"#,
            r#"{"value":2.0,"n":3,"unit":"ratio"}"#,
            r#"{"value":2.0,"lo":1.0,"n":3,"unit":"ratio"}"#,
            r#"{"value":2.0,"lo":1.0,"hi":3.0,"range":[1.0,3.0],"n":3,"unit":"ratio"}"#,
        ] {
            assert!(serde_json::from_str::<Estimate>(text).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn the_parts_of_an_interval_have_keys_and_an_unknown_part_is_null()
    -> Result<(), serde_json::Error> {
        for (sys_lo, shown) in [(Some(0.25), "0.25"), (None, "null")] {
            let estimate = Estimate {
                value: 2.0,
                lo: 1.0,
                hi: 3.0,
                ends: Ends::Interval,
                parts: Some(Parts {
                    stat_lo: 1.25,
                    stat_hi: 3.0,
                    sys_lo,
                    sys_hi: sys_lo.map(|_| 0.0),
                }),
                n: 3,
                unit: "ratio".to_owned(),
            };
            let text = serde_json::to_string(&estimate)?;
            let keys = format!(r#""stat_lo":1.25,"stat_hi":3.0,"sys_lo":{shown},"sys_hi""#);
            assert!(text.contains(&keys), "{text}");
            assert_eq!(serde_json::from_str::<Estimate>(&text)?, estimate);
        }
        Ok(())
    }
}
