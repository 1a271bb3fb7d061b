//! What is simulated: tenants, load and device, as the user writes it in TOML or flags.

use super::event::options::EventOptions;
use crate::error::{NOT_NEGATIVE, POSITIVE, PredictError, SHARE, from_toml};
use crate::rng::RngKind;
use serde::{Deserialize, Serialize};

/// More requests than this would not fit the memory of a laptop.
const MAX_REQUESTS: f64 = 2e8;
/// More tenants than any mechanism serves, and few enough to count in a loop.
pub const MAX_TENANTS: u32 = 1024;

/// Tenants, load and device. Defaults are those of the published table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// How many tenants share the device.
    pub tenants: u32,
    /// Service time of one request on the whole device.
    pub service_ms: f64,
    /// Requests that each tenant sends, per second.
    pub rate_per_s: f64,
    /// How long requests arrive.
    pub duration_s: f64,
    /// Under MPS, how much every busy tenant stretches a service time.
    pub contention: f64,
    /// Under time-slicing, what it costs to change from one tenant to another.
    pub switch_ms: f64,
    /// Into how many equal parts MIG cuts the device; as many as there are tenants by default.
    pub slices: Option<u32>,
    /// Measured speed of one MIG slice relative to the whole device, in place of one over `slices`.
    pub slice_speed: Option<f64>,
    /// Seed of the generator.
    pub seed: u64,
    /// Which generator.
    pub rng: RngKind,
    /// Tenants that differ from the rest.
    pub tenant: Vec<TenantOverride>,
    /// A tenant that takes more than its share.
    pub hostile: Option<Hostile>,
    /// What the discrete-event form adds; with it, that form is simulated.
    pub event: Option<EventOptions>,
}

/// What one tenant does differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantOverride {
    /// Which tenant, counted from 0.
    pub index: u32,
    /// Its service time on the whole device.
    pub service_ms: Option<f64>,
    /// Its requests per second.
    pub rate_per_s: Option<f64>,
}

/// A tenant that takes more than its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hostile {
    /// Which tenant, counted from 0.
    pub tenant: u32,
    /// By how much its requests are longer.
    pub service_factor: f64,
    /// By how much its requests are more frequent.
    pub rate_factor: f64,
    /// Contention that its co-residents feel under MPS while it is busy.
    pub contention: f64,
}

impl Default for Hostile {
    fn default() -> Self {
        Self {
            tenant: 0,
            service_factor: 10.0,
            rate_factor: 2.0,
            contention: 1.8,
        }
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

/// What one tenant asks of the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantLoad {
    /// Service time on the whole device.
    pub service_s: f64,
    /// Mean of the times between arrivals.
    pub mean_gap_s: f64,
}

impl TenantLoad {
    /// Requests per second.
    pub fn rate_per_s(&self) -> f64 {
        1.0 / self.mean_gap_s
    }
}

impl Scenario {
    /// Reads a scenario from TOML; keys that are left out have their defaults.
    pub fn from_toml(text: &str) -> Result<Self, PredictError> {
        from_toml("scenario", text)
    }

    /// Says what is wrong with the values, the first of them.
    pub fn check(&self) -> Result<(), PredictError> {
        if self.tenants == 0 || self.tenants > MAX_TENANTS {
            let accepted = format!("a whole number from 1 to {MAX_TENANTS}");
            return Err(PredictError::value("tenants", self.tenants, &accepted));
        }
        POSITIVE.check("service_ms", self.service_ms)?;
        POSITIVE.check("rate_per_s", self.rate_per_s)?;
        POSITIVE.check("duration_s", self.duration_s)?;
        NOT_NEGATIVE.check("contention", self.contention)?;
        NOT_NEGATIVE.check("switch_ms", self.switch_ms)?;
        if self.slices == Some(0) {
            return Err(PredictError::value(
                "slices",
                0,
                "a whole number of at least 1",
            ));
        }
        if let Some(speed) = self.slice_speed {
            SHARE.check("slice_speed", speed)?;
        }
        self.check_tenants()?;
        self.check_size()?;
        self.event
            .as_ref()
            .map_or(Ok(()), |event| event.check(self.tenants, self.duration_s))
    }

    fn check_tenants(&self) -> Result<(), PredictError> {
        let known = |name: &str, index: u32| {
            if index < self.tenants {
                return Ok(());
            }
            let accepted = format!("a tenant from 0 to {}", self.tenants - 1);
            Err(PredictError::value(name, index, &accepted))
        };
        for (place, change) in self.tenant.iter().enumerate() {
            known("tenant.index", change.index)?;
            if self.tenant[..place]
                .iter()
                .any(|other| other.index == change.index)
            {
                let accepted = "each tenant once";
                return Err(PredictError::value("tenant.index", change.index, accepted));
            }
            POSITIVE.check_set("tenant.service_ms", change.service_ms)?;
            POSITIVE.check_set("tenant.rate_per_s", change.rate_per_s)?;
        }
        let Some(hostile) = &self.hostile else {
            return Ok(());
        };
        known("hostile.tenant", hostile.tenant)?;
        POSITIVE.check("hostile.service_factor", hostile.service_factor)?;
        POSITIVE.check("hostile.rate_factor", hostile.rate_factor)?;
        NOT_NEGATIVE.check("hostile.contention", hostile.contention)
    }

    fn check_size(&self) -> Result<(), PredictError> {
        let requests = self.offered_per_s() * self.duration_s;
        if requests <= MAX_REQUESTS {
            return Ok(());
        }
        let accepted = format!("at most {MAX_REQUESTS:.0} requests (rate times duration)");
        Err(PredictError::value(
            "the load",
            format!("{requests:.0} requests"),
            &accepted,
        ))
    }

    /// What each tenant asks, overrides and the hostile tenant included.
    pub fn loads(&self) -> Vec<TenantLoad> {
        (0..self.tenants).map(|index| self.load_of(index)).collect()
    }

    fn load_of(&self, index: u32) -> TenantLoad {
        let change = self.tenant.iter().find(|change| change.index == index);
        let mut service_ms = change.and_then(|c| c.service_ms).unwrap_or(self.service_ms);
        let mut rate_per_s = change.and_then(|c| c.rate_per_s).unwrap_or(self.rate_per_s);
        if let Some(hostile) = self
            .hostile
            .as_ref()
            .filter(|hostile| hostile.tenant == index)
        {
            service_ms *= hostile.service_factor;
            rate_per_s *= hostile.rate_factor;
        }
        TenantLoad {
            service_s: service_ms / 1000.0,
            mean_gap_s: 1.0 / rate_per_s,
        }
    }

    /// Requests of all tenants per second.
    pub fn offered_per_s(&self) -> f64 {
        self.loads().iter().map(TenantLoad::rate_per_s).sum()
    }

    /// Work that arrives per second, in seconds of the whole device.
    pub fn device_load(&self) -> f64 {
        self.loads()
            .iter()
            .map(|load| load.service_s * load.rate_per_s())
            .sum()
    }

    /// The same scenario with every tenant's rate scaled so that the device load is the given one.
    pub fn at_device_load(&self, load: f64) -> Self {
        let factor = load / self.device_load();
        let mut scaled = self.clone();
        scaled.rate_per_s *= factor;
        for change in &mut scaled.tenant {
            change.rate_per_s = change.rate_per_s.map(|rate| rate * factor);
        }
        scaled
    }

    /// A tenant's service time on its MIG slice.
    pub fn slice_service_s(&self, service_s: f64) -> f64 {
        match self.slice_speed {
            Some(speed) => service_s / speed,
            None => f64::from(self.slices.unwrap_or(self.tenants)) * service_s,
        }
    }
}
