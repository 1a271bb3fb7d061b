//! The simulated scenario: tenants, load and device, as written in TOML or flags.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::event::options::{ArrivalKind, EventOptions, ServiceKind};
use crate::error::{PredictError, Range, SHARE, from_toml};
use crate::rng::RngKind;

/// Limit of tenants, above that of every mechanism.
pub const MAX_TENANTS: u32 = 1024;

/// Tenants, load and device. The defaults are those of the published table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Number of tenants that share the device.
    pub tenants: u32,
    /// Service time of one request on the whole device.
    pub service_ms: f64,
    /// Requests of each tenant per second.
    pub rate_per_s: f64,
    /// Simulated time in which requests arrive.
    pub duration_s: f64,
    /// MPS: factor by which each other busy tenant lengthens a service time.
    pub contention: f64,
    /// Time-slicing: cost of a context switch between tenants.
    pub switch_ms: f64,
    /// MIG: number of equal instances; one per tenant by default.
    pub slices: Option<u32>,
    /// Measured speed of one MIG instance relative to the whole device, in place of 1 / `slices`.
    pub slice_speed: Option<f64>,
    pub seed: u64,
    pub rng: RngKind,
    pub tenant: Vec<TenantOverride>,
    pub hostile: Option<Hostile>,
    /// Options of the discrete-event model; `Some` selects this model.
    pub event: Option<EventOptions>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantOverride {
    /// Index of the tenant, from 0.
    pub index: u32,
    /// Its service time on the whole device.
    pub service_ms: Option<f64>,
    /// Its requests per second.
    pub rate_per_s: Option<f64>,
}

/// A tenant that exceeds its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hostile {
    /// Index of the tenant, from 0.
    pub tenant: u32,
    pub service_factor: f64,
    pub rate_factor: f64,
    /// MPS: contention factor of the other tenants while it is busy.
    pub contention: f64,
}

impl Default for Hostile {
    fn default() -> Self {
        Self { tenant: 0, service_factor: 10.0, rate_factor: 2.0, contention: 1.8 }
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            tenants: 7,
            service_ms: 10.0,
            rate_per_s: 12.0,
            duration_s: 60.0,
            contention: 0.18,
            switch_ms: 0.8,
            slices: None,
            slice_speed: None,
            seed: 7,
            rng: RngKind::default(),
            tenant: Vec::new(),
            hostile: None,
            event: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantLoad {
    /// Service time on the whole device.
    pub service_s: f64,
    /// Mean time between arrivals.
    pub mean_gap_s: f64,
}

impl TenantLoad {
    /// Requests per second.
    pub fn rate_per_s(&self) -> f64 {
        1.0 / self.mean_gap_s
    }
}

impl Scenario {
    /// Reads a scenario from TOML; missing keys have their defaults.
    pub fn from_toml(text: &str) -> Result<Self, PredictError> {
        from_toml("scenario", text)
    }

    /// Checks the values and returns the first problem.
    pub fn check(&self) -> Result<(), PredictError> {
        if self.tenants == 0 || self.tenants > MAX_TENANTS {
            let accepted = format!("a whole number from 1 to {MAX_TENANTS}");
            return Err(PredictError::value("tenants", self.tenants, &accepted));
        }
        MILLISECONDS.check("service_ms", self.service_ms)?;
        RATE.check("rate_per_s", self.rate_per_s)?;
        DURATION.check("duration_s", self.duration_s)?;
        CONTENTION.check("contention", self.contention)?;
        NO_OR_MILLISECONDS.check("switch_ms", self.switch_ms)?;
        if self.slices == Some(0) {
            return Err(PredictError::value("slices", 0, "a whole number of at least 1"));
        }
        if let Some(speed) = self.slice_speed {
            SHARE.check("slice_speed", speed)?;
        }
        self.check_tenants()?;
        self.check_size()?;
        self.event.as_ref().map_or(Ok(()), |event| event.check(self.tenants, self.duration_s))
    }

    fn check_tenants(&self) -> Result<(), PredictError> {
        let known = |name: &str, index: u32| {
            if index < self.tenants {
                return Ok(());
            }
            let accepted = format!("a tenant from 0 to {}", self.tenants - 1);
            Err(PredictError::value(name, index, &accepted))
        };
        for (index, change) in self.tenant.iter().enumerate() {
            known("tenant.index", change.index)?;
            if self.tenant[..index].iter().any(|other| other.index == change.index) {
                let accepted = "each tenant once";
                return Err(PredictError::value("tenant.index", change.index, accepted));
            }
            MILLISECONDS.check_set("tenant.service_ms", change.service_ms)?;
            RATE.check_set("tenant.rate_per_s", change.rate_per_s)?;
        }
        let Some(hostile) = &self.hostile else { return Ok(()) };
        known("hostile.tenant", hostile.tenant)?;
        FACTOR.check("hostile.service_factor", hostile.service_factor)?;
        FACTOR.check("hostile.rate_factor", hostile.rate_factor)?;
        CONTENTION.check("hostile.contention", hostile.contention)
    }

    fn check_size(&self) -> Result<(), PredictError> {
        let requests = self.offered_per_s() * self.duration_s;
        if requests <= REQUESTS_MAX {
            return Ok(());
        }
        let accepted = format!("at most {REQUESTS_MAX:.0} requests (rate times duration)");
        Err(PredictError::value("the load", format!("{requests:.0} requests"), &accepted))
    }

    pub fn loads(&self) -> Vec<TenantLoad> {
        (0..self.tenants).map(|index| self.load_of(index)).collect()
    }

    fn load_of(&self, index: u32) -> TenantLoad {
        let change = self.tenant.iter().find(|change| change.index == index);
        let mut service_ms = change.and_then(|c| c.service_ms).unwrap_or(self.service_ms);
        let mut rate_per_s = change.and_then(|c| c.rate_per_s).unwrap_or(self.rate_per_s);
        if let Some(hostile) = self.hostile.as_ref().filter(|hostile| hostile.tenant == index) {
            service_ms *= hostile.service_factor;
            rate_per_s *= hostile.rate_factor;
        }
        TenantLoad { service_s: service_ms / 1000.0, mean_gap_s: 1.0 / rate_per_s }
    }

    /// Requests of all tenants per second.
    pub fn offered_per_s(&self) -> f64 {
        self.loads().iter().map(TenantLoad::rate_per_s).sum()
    }

    /// Work that arrives per second, in seconds of the whole device: 1 is a full device.
    pub fn device_load(&self) -> f64 {
        self.loads().iter().map(|load| load.service_s * load.rate_per_s()).sum()
    }

    pub fn at_device_load(&self, load: f64) -> Self {
        let factor = load / self.device_load();
        let mut scaled = self.clone();
        scaled.rate_per_s *= factor;
        for change in &mut scaled.tenant {
            change.rate_per_s = change.rate_per_s.map(|rate| rate * factor);
        }
        scaled
    }

    pub fn slice_service_s(&self, service_s: f64) -> f64 {
        match self.slice_speed {
            Some(speed) => service_s / speed,
            None => f64::from(self.slices.unwrap_or(self.tenants)) * service_s,
        }
    }
}

// Parts of a scenario as one word of text: the form that flags take.

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

// The ranges of the values of a scenario. Beyond them a model is of nothing that runs, and sums
// and products leave the numbers that a computer holds.

/// Requests of one simulated run: what a laptop holds.
pub const REQUESTS_MAX: f64 = 2e8;

/// Times of requests and slices.
pub const MILLISECONDS: Range =
    Range::new("a number above 0 and at most 3600000, an hour", |ms| ms > 0.0 && ms <= 3.6e6);
/// The same with nothing.
pub const NO_OR_MILLISECONDS: Range =
    Range::new("a number of at least 0 and at most 3600000, an hour", |ms| {
        (0.0..=3.6e6).contains(&ms)
    });
pub const DURATION: Range =
    Range::new("a number above 0 and at most 31536000, a year", |s| s > 0.0 && s <= 31_536_000.0);
/// Requests per second.
pub const RATE: Range =
    Range::new("a number above 0 and at most 1000000000", |per_s| per_s > 0.0 && per_s <= 1e9);
/// Factors on a time or a rate.
pub const FACTOR: Range =
    Range::new("a number above 0 and at most 1000000", |factor| factor > 0.0 && factor <= 1e6);
pub const CONTENTION: Range = Range::new("a number of at least 0 and at most 1000000", |factor| {
    (0.0..=1e6).contains(&factor)
});

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
