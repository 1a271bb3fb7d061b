//! Parts of a scenario as one word of text: the form that flags take.

use std::str::FromStr;

use super::event::variates::{ArrivalKind, ServiceKind};
use super::scenario::TenantOverride;

/// Reads `INDEX:service-ms=MS,rate-per-s=R`; either value may be left out.
impl FromStr for TenantOverride {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ACCEPTED: &str = "accepted: INDEX:service-ms=MS,rate-per-s=R";
        let (index, values) = text.split_once(':').ok_or(ACCEPTED)?;
        let mut change = Self {
            index: index.parse().map_err(|_| ACCEPTED)?,
            service_ms: None,
            rate_per_s: None,
        };
        for pair in values.split(',') {
            let (key, value) = pair.split_once('=').ok_or(ACCEPTED)?;
            let value = Some(value.parse().map_err(|_| ACCEPTED)?);
            match key {
                "service-ms" => change.service_ms = value,
                "rate-per-s" => change.rate_per_s = value,
                _ => return Err(ACCEPTED),
            }
        }
        Ok(change)
    }
}

/// Device loads of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Loads(pub Vec<f64>);

/// Reads a list such as `0.1,0.5`, or `FROM..TO:COUNT` with at least two steps.
impl FromStr for Loads {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ACCEPTED: &str = "accepted: a list such as 0.1,0.5, or FROM..TO:COUNT";
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| ACCEPTED);
        let Some((range, count)) = text.split_once(':') else {
            return text.split(',').map(number).collect::<Result<_, _>>().map(Self);
        };
        let (from, to) = range.split_once("..").ok_or(ACCEPTED)?;
        let (from, to) = (number(from)?, number(to)?);
        let count: Option<u16> = count.parse().ok().filter(|count| *count >= 2);
        let count = count.ok_or(ACCEPTED)?;
        let step = (to - from) / f64::from(count - 1);
        let loads = (0..count).map(|number| from + step * f64::from(number));
        Ok(Self(loads.collect()))
    }
}

/// Reads `deterministic`, `exponential`, `erlang:K`, `log-normal:CV` or `hyper-exponential:CV`.
impl FromStr for ServiceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ACCEPTED: &str = "accepted: deterministic, exponential, erlang:STAGES, \
                                log-normal:CV, hyper-exponential:CV";
        let (name, parameter) =
            text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)));
        let cv = || parameter.and_then(|text| text.parse().ok());
        let kind = match (name, parameter) {
            ("deterministic", None) => Some(Self::Deterministic),
            ("exponential", None) => Some(Self::Exponential),
            ("erlang", Some(stages)) => stages.parse().ok().map(|stages| Self::Erlang { stages }),
            ("log-normal", _) => cv().map(|cv| Self::LogNormal { cv }),
            ("hyper-exponential", _) => cv().map(|cv| Self::HyperExponential { cv }),
            _ => None,
        };
        let kind = kind.ok_or(ACCEPTED)?;
        kind.check().map_err(|error| error.to_string())?;
        Ok(kind)
    }
}

impl ArrivalKind {
    /// Reads `ON_MS:OFF_MS`: arrivals in bursts with pauses.
    pub fn bursts(text: &str) -> Result<Self, String> {
        let lengths =
            text.split_once(':').and_then(|(on, off)| Some((on.parse().ok()?, off.parse().ok()?)));
        let (on_ms, off_ms) =
            lengths.ok_or("accepted: two lengths in milliseconds, ON_MS:OFF_MS")?;
        let kind = Self::Bursts { on_ms, off_ms };
        kind.check().map_err(|error| error.to_string())?;
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrivalKind, Loads, ServiceKind, TenantOverride};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn a_tenant_has_an_index_and_its_own_values() -> TestResult {
        let one: TenantOverride = "2:service-ms=4,rate-per-s=0.5".parse()?;
        assert_eq!((one.index, one.service_ms), (2, Some(4.0)));
        assert_eq!(one.rate_per_s, Some(0.5));
        for wrong in ["", "2", "x:service-ms=4", "2:service-ms", "2:size=4", "2:service-ms=x"] {
            assert!(wrong.parse::<TenantOverride>().is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn loads_are_a_list_or_a_range() -> TestResult {
        assert_eq!("0.1, 0.5".parse::<Loads>()?.0, [0.1, 0.5]);
        assert_eq!("0..1:3".parse::<Loads>()?.0, [0.0, 0.5, 1.0]);
        for wrong in ["", "0..1", "0..1:1", "0-1:3", "a..1:3"] {
            assert!(wrong.parse::<Loads>().is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn a_distribution_has_the_parameter_that_it_needs_and_no_other() -> TestResult {
        for (text, kind) in [
            ("deterministic", ServiceKind::Deterministic),
            ("erlang:4", ServiceKind::Erlang { stages: 4 }),
            ("log-normal:0.5", ServiceKind::LogNormal { cv: 0.5 }),
            ("hyper-exponential:2", ServiceKind::HyperExponential { cv: 2.0 }),
        ] {
            assert_eq!(text.parse::<ServiceKind>()?, kind, "{text}");
        }
        for wrong in [
            "",
            "normal",
            "deterministic:1",
            "erlang",
            "erlang:x",
            "erlang:0",
            "log-normal",
            "hyper-exponential:0.5",
        ] {
            assert!(wrong.parse::<ServiceKind>().is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn bursts_have_two_lengths_above_zero() -> TestResult {
        let found = ArrivalKind::bursts("5:20")?;
        let (on_ms, off_ms) = (5.0, 20.0);
        assert_eq!(found, ArrivalKind::Bursts { on_ms, off_ms });
        for wrong in ["5", "5:x", "0:20"] {
            assert!(ArrivalKind::bursts(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
