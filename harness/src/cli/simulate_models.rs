//! Flags of `simulate` that describe a hostile tenant or select the discrete-event model.

use gpubench_predict::simulate::event::EventOptions;
use gpubench_predict::simulate::event::options::{ArrivalKind, ServiceKind};
use gpubench_predict::simulate::scenario::Hostile;

use super::predicting::{mig_gpu, not_negative, percent, positive, share};

/// A tenant that exceeds its share.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Hostile tenant (each flag adds one)")]
pub(super) struct HostileArgs {
    /// One tenant exceeds its share
    #[arg(long)]
    hostile: bool,
    /// Index of the hostile tenant, from 0 [default: 0]
    #[arg(long, value_name = "INDEX")]
    hostile_tenant: Option<u32>,
    /// Factor on its service time, above 0 [default: 10]
    #[arg(long, value_name = "X", value_parser = positive)]
    hostile_service: Option<f64>,
    /// Factor on its request rate, above 0 [default: 2]
    #[arg(long, value_name = "X", value_parser = positive)]
    hostile_rate: Option<f64>,
    /// MPS: contention factor of the other tenants while it is busy [default: 1.8]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    hostile_contention: Option<f64>,
}

impl HostileArgs {
    /// Applies the flags to the hostile tenant of a scenario.
    pub(super) fn apply(&self, hostile: &mut Hostile) {
        set(&mut hostile.tenant, self.hostile_tenant);
        set(&mut hostile.service_factor, self.hostile_service);
        set(&mut hostile.rate_factor, self.hostile_rate);
        set(&mut hostile.contention, self.hostile_contention);
    }
}

/// Options of the discrete-event model.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Discrete-event model (each flag selects it)")]
pub(super) struct EventArgs {
    /// Use the discrete-event model
    #[arg(long)]
    event: bool,
    /// Service times: deterministic, exponential, erlang:STAGES, log-normal:CV,
    /// hyper-exponential:CV (CV: deviation / mean) [default: deterministic]
    #[arg(long, value_name = "LAW")]
    service: Option<ServiceKind>,
    /// Arrivals in bursts, with the mean lengths of bursts and pauses
    #[arg(long, value_name = "ON_MS:OFF_MS", value_parser = ArrivalKind::bursts)]
    bursts: Option<ArrivalKind>,
    /// Time-slicing and HAMi: longest time slice [default: until the request ends]
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub(super) quantum_ms: Option<f64>,
    /// Warm-up time, excluded from the figures [default: 0]
    #[arg(long, value_name = "S", value_parser = not_negative)]
    warmup_s: Option<f64>,
    /// GPU that defines the MIG profiles, for example A100-80
    #[arg(long, value_name = "GPU", value_parser = mig_gpu)]
    gpu: Option<String>,
    /// MIG profile of each tenant (separate by commas) [default: equal slices]
    #[arg(long, value_name = "PROFILE", value_delimiter = ',')]
    mig: Vec<String>,
    /// MPS: share of the SMs that one request occupies, up to 1 [default: 1 / tenants]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    width: Option<f64>,
    /// MPS: active-thread percentage of each tenant, up to 100 [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    mps_percent: Option<f64>,
    /// HAMi: share of device time of each tenant, up to 100 [default: 100 / tenants]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    hami_percent: Option<f64>,
}

impl EventArgs {
    /// Applies the flags to the discrete-event options of a scenario.
    pub(super) fn apply(&self, event: &mut EventOptions) {
        set(&mut event.service, self.service);
        set(&mut event.arrivals, self.bursts);
        set(&mut event.warmup_s, self.warmup_s);
        set(&mut event.mps_percent, self.mps_percent);
        event.quantum_ms = self.quantum_ms.or(event.quantum_ms);
        event.width = self.width.or(event.width);
        event.hami_percent = self.hami_percent.or(event.hami_percent);
        event.gpu = self.gpu.clone().or(event.gpu.take());
        if !self.mig.is_empty() {
            event.mig.clone_from(&self.mig);
        }
    }
}

/// Replaces a value by that of a flag that was passed.
pub(super) fn set<T>(value: &mut T, flag: Option<T>) {
    if let Some(flag) = flag {
        *value = flag;
    }
}
