//! Flags of the discrete-event form of `simulate`.

use gpubench_predict::PredictError;
use gpubench_predict::simulate::event::variates::{ArrivalKind, ServiceKind};
use gpubench_predict::simulate::scenario::Scenario;

use super::predicting::{NUMBER, parse, set, unknown};

/// What the discrete-event form adds; any of these selects it.
#[derive(Debug, clap::Args)]
pub(super) struct EventArgs {
    /// Simulate the discrete-event form
    #[arg(long)]
    event: bool,
    /// Law of service times: deterministic, exponential, erlang:K, log-normal:CV,
    /// hyper-exponential:CV
    #[arg(long, value_name = "LAW")]
    service: Option<String>,
    /// Arrivals in bursts of a mean length, with silences between: ON_MS:OFF_MS
    #[arg(long, value_name = "MS:MS")]
    bursts: Option<String>,
    /// Longest turn under time-slicing and HAMi
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    pub(super) quantum_ms: Option<String>,
    /// Beginning of the run that counts for nothing
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    warmup_s: Option<String>,
    /// GPU whose MIG profiles are meant
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// One MIG profile per tenant
    #[arg(long, value_name = "PROFILE", value_delimiter = ',')]
    mig: Vec<String>,
    /// Share of the SMs that a request keeps busy (default: one over the tenants)
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    width: Option<String>,
    /// Active-thread percentage under MPS
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    mps_percent: Option<String>,
    /// Share of the device's time that HAMi grants a tenant
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    hami_percent: Option<String>,
}

impl EventArgs {
    /// Lays the flags over a scenario.
    pub(super) fn over(&self, scenario: &mut Scenario) -> Result<(), PredictError> {
        let numbers = [
            &self.quantum_ms,
            &self.warmup_s,
            &self.width,
            &self.mps_percent,
            &self.hami_percent,
        ];
        let names = [&self.service, &self.bursts, &self.gpu];
        let is_asked = self.event
            || !self.mig.is_empty()
            || numbers.iter().chain(&names).any(|flag| flag.is_some());
        if !is_asked {
            return Ok(());
        }
        let mut event = scenario.event.take().unwrap_or_default();
        set(&mut event.warmup_s, "warmup_s", &self.warmup_s, NUMBER)?;
        set(
            &mut event.mps_percent,
            "mps_percent",
            &self.mps_percent,
            NUMBER,
        )?;
        event.quantum_ms = parse("quantum_ms", &self.quantum_ms, NUMBER)?.or(event.quantum_ms);
        event.width = parse("width", &self.width, NUMBER)?.or(event.width);
        event.hami_percent =
            parse("hami_percent", &self.hami_percent, NUMBER)?.or(event.hami_percent);
        event.gpu = self.gpu.clone().or(event.gpu);
        if !self.mig.is_empty() {
            event.mig.clone_from(&self.mig);
        }
        if let Some(given) = &self.service {
            event.service = law(given)?;
        }
        if let Some(given) = &self.bursts {
            let accepted = "two lengths in milliseconds, ON:OFF";
            let parts = given
                .split_once(':')
                .and_then(|(on, off)| Some((on.parse().ok()?, off.parse().ok()?)));
            let (on_ms, off_ms) =
                parts.ok_or_else(|| PredictError::value("bursts", given, accepted))?;
            event.arrivals = ArrivalKind::Bursts { on_ms, off_ms };
        }
        scenario.event = Some(event);
        Ok(())
    }
}

fn law(given: &str) -> Result<ServiceKind, PredictError> {
    let known = "deterministic, exponential, erlang:K, log-normal:CV, hyper-exponential:CV";
    let wrong = || unknown("law of service times", given, known);
    let (name, parameter) = given
        .split_once(':')
        .map_or((given, None), |(n, p)| (n, Some(p)));
    let cv = || {
        parameter
            .and_then(|text| text.parse().ok())
            .ok_or_else(wrong)
    };
    match (name, parameter) {
        ("deterministic", None) => Ok(ServiceKind::Deterministic),
        ("exponential", None) => Ok(ServiceKind::Exponential),
        ("erlang", Some(stages)) => stages
            .parse()
            .map(|stages| ServiceKind::Erlang { stages })
            .map_err(|_| wrong()),
        ("log-normal", Some(_)) => Ok(ServiceKind::LogNormal { cv: cv()? }),
        ("hyper-exponential", Some(_)) => Ok(ServiceKind::HyperExponential { cv: cv()? }),
        _ => Err(wrong()),
    }
}
