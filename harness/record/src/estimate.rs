//! A figure with its two ends, which are those of an interval, of a range or of a bound.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Those of the 95 % interval; `lo` and `hi` in JSON.
    #[default]
    Interval,
    /// Minimum and maximum of `n` values, which bound no further value; `range` in JSON.
    Range,
    /// The true value is at least `lo`; the upper end is unknown. `at_least` in JSON.
    AtLeast,
}

impl Ends {
    /// As in records and CSV.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Range => "range",
            Self::AtLeast => "at least",
        }
    }
}

/// A figure as JSON: with `lo` and `hi`, or `range`, or `at_least`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Estimate")]
struct Json {
    value: f64,
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
#[error("a figure has lo and hi, or range, or at_least; found none or several of them")]
pub struct NoEnds;

impl TryFrom<Json> for Estimate {
    type Error = NoEnds;

    fn try_from(json: Json) -> Result<Self, NoEnds> {
        let (ends, [lo, hi]) = match (json.lo.zip(json.hi), json.range, json.at_least) {
            (Some((lo, hi)), None, None) => (Ends::Interval, [lo, hi]),
            (None, Some(range), None) => (Ends::Range, range),
            (None, None, Some(lo)) => (Ends::AtLeast, [lo, f64::INFINITY]),
            _ => return Err(NoEnds),
        };
        Ok(Self { value: json.value, lo, hi, ends, parts: json.parts, n: json.n, unit: json.unit })
    }
}

impl From<Estimate> for Json {
    fn from(estimate: Estimate) -> Self {
        let Estimate { lo, hi, ends, .. } = estimate;
        Self {
            value: estimate.value,
            lo: (ends == Ends::Interval).then_some(lo),
            hi: (ends == Ends::Interval).then_some(hi),
            range: (ends == Ends::Range).then_some([lo, hi]),
            at_least: (ends == Ends::AtLeast).then_some(lo),
            parts: estimate.parts,
            n: estimate.n,
            unit: estimate.unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ends, Estimate, Parts};

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
        for text in [
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
