//! Values of a scenario that one word of text describes, as flags have them.

use super::event::variates::{ArrivalKind, ServiceKind};
use super::scenario::TenantOverride;
use crate::PredictError;

/// `INDEX:service-ms=MS,rate-per-s=R`: the values of one tenant.
///
/// # Errors
/// When the text has another form.
pub fn tenant_override(text: &str) -> Result<TenantOverride, PredictError> {
    const ACCEPTED: &str = "INDEX:service-ms=MS,rate-per-s=R";
    let wrong = || PredictError::value("tenant", text, ACCEPTED);
    let (index, rest) = text.split_once(':').ok_or_else(wrong)?;
    let mut change = TenantOverride {
        index: index.parse().map_err(|_| wrong())?,
        service_ms: None,
        rate_per_s: None,
    };
    for part in rest.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let value = Some(value.parse::<f64>().map_err(|_| wrong())?);
        match key {
            "service-ms" => change.service_ms = value,
            "rate-per-s" => change.rate_per_s = value,
            _ => return Err(wrong()),
        }
    }
    Ok(change)
}

/// A list as `0.1,0.5`, or `FROM..TO:COUNT`: the device loads of a sweep.
///
/// # Errors
/// When the text has another form, or fewer than two steps.
pub fn loads(text: &str) -> Result<Vec<f64>, PredictError> {
    let wrong = || PredictError::value("loads", text, "a list as 0.1,0.5, or FROM..TO:COUNT");
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    let Some((range, count)) = text.split_once(':') else {
        return text.split(',').map(number).collect();
    };
    let (from, to) = range.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (number(from)?, number(to)?);
    let count: Option<u16> = count.parse().ok().filter(|count| *count >= 2);
    let count = count.ok_or_else(wrong)?;
    let step = (to - from) / f64::from(count - 1);
    Ok((0..count)
        .map(|number| from + step * f64::from(number))
        .collect())
}

/// `deterministic`, `exponential`, `erlang:K`, `log-normal:CV` or `hyper-exponential:CV`.
///
/// # Errors
/// When the text names no distribution, or its parameter is missing or wrong.
pub fn service_kind(text: &str) -> Result<ServiceKind, PredictError> {
    let wrong = || PredictError::Unknown {
        what: "service-time distribution",
        given: text.to_owned(),
        known: "deterministic, exponential, erlang:K, log-normal:CV, hyper-exponential:CV"
            .to_owned(),
    };
    let (name, parameter) = text
        .split_once(':')
        .map_or((text, None), |(name, parameter)| (name, Some(parameter)));
    let cv = || {
        let cv = parameter.and_then(|text| text.parse().ok());
        cv.ok_or_else(wrong)
    };
    match (name, parameter) {
        ("deterministic", None) => Ok(ServiceKind::Deterministic),
        ("exponential", None) => Ok(ServiceKind::Exponential),
        ("erlang", Some(stages)) => {
            let stages = stages.parse().map_err(|_| wrong())?;
            Ok(ServiceKind::Erlang { stages })
        }
        ("log-normal", Some(_)) => Ok(ServiceKind::LogNormal { cv: cv()? }),
        ("hyper-exponential", Some(_)) => Ok(ServiceKind::HyperExponential { cv: cv()? }),
        _ => Err(wrong()),
    }
}

/// `ON_MS:OFF_MS`: arrivals in bursts with pauses.
///
/// # Errors
/// When the text has another form.
pub fn bursts(text: &str) -> Result<ArrivalKind, PredictError> {
    let parts = text
        .split_once(':')
        .and_then(|(on, off)| Some((on.parse().ok()?, off.parse().ok()?)));
    let accepted = "two lengths in milliseconds, ON:OFF";
    let (on_ms, off_ms) = parts.ok_or_else(|| PredictError::value("bursts", text, accepted))?;
    Ok(ArrivalKind::Bursts { on_ms, off_ms })
}

#[cfg(test)]
mod tests {
    use super::{ArrivalKind, ServiceKind, bursts, loads, service_kind, tenant_override};

    type TestResult = Result<(), crate::PredictError>;

    #[test]
    fn a_tenant_has_an_index_and_its_own_values() -> TestResult {
        let one = tenant_override("2:service-ms=4,rate-per-s=0.5")?;
        assert_eq!((one.index, one.service_ms), (2, Some(4.0)));
        assert_eq!(one.rate_per_s, Some(0.5));
        for wrong in [
            "",
            "2",
            "x:service-ms=4",
            "2:service-ms",
            "2:size=4",
            "2:service-ms=x",
        ] {
            assert!(tenant_override(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn loads_are_a_list_or_a_range() -> TestResult {
        assert_eq!(loads("0.1, 0.5")?, [0.1, 0.5]);
        assert_eq!(loads("0..1:3")?, [0.0, 0.5, 1.0]);
        for wrong in ["", "0..1", "0..1:1", "0-1:3", "a..1:3"] {
            assert!(loads(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn a_distribution_has_the_parameter_that_it_needs_and_no_other() -> TestResult {
        for (text, kind) in [
            ("deterministic", ServiceKind::Deterministic),
            ("erlang:4", ServiceKind::Erlang { stages: 4 }),
            ("log-normal:0.5", ServiceKind::LogNormal { cv: 0.5 }),
            (
                "hyper-exponential:2",
                ServiceKind::HyperExponential { cv: 2.0 },
            ),
        ] {
            assert_eq!(service_kind(text)?, kind, "{text}");
        }
        for wrong in [
            "",
            "normal",
            "deterministic:1",
            "erlang",
            "erlang:x",
            "log-normal",
        ] {
            assert!(service_kind(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn bursts_have_two_lengths() -> TestResult {
        let found = bursts("5:20")?;
        let (on_ms, off_ms) = (5.0, 20.0);
        assert_eq!(found, ArrivalKind::Bursts { on_ms, off_ms });
        assert!(bursts("5").is_err() && bursts("5:x").is_err());
        Ok(())
    }
}
