//! The simulated scenario: tenants, load and device, as written in TOML or flags.

use super::event::options::EventOptions;
use super::ranges::{
    CONTENTION, DURATION, FACTOR, MILLISECONDS, NO_OR_MILLISECONDS, RATE, REQUESTS_MAX,
};
use crate::error::{PredictError, SHARE, from_toml};
use crate::rng::RngKind;
use serde::{Deserialize, Serialize};

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
    /// Seed of the generator.
    pub seed: u64,
    /// The random generator.
    pub rng: RngKind,
    /// Tenants with their own values.
    pub tenant: Vec<TenantOverride>,
    /// A tenant that exceeds its share.
    pub hostile: Option<Hostile>,
    /// Options of the discrete-event model; `Some` selects this model.
    pub event: Option<EventOptions>,
}

/// Own values of one tenant.
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
    /// Factor on its service time.
    pub service_factor: f64,
    /// Factor on its request rate.
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

/// The load of one tenant.
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
        let Some(hostile) = &self.hostile else {
            return Ok(());
        };
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

    /// The load of each tenant, with own values and the hostile tenant applied.
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

    /// The scenario with all rates scaled to this device load.
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
