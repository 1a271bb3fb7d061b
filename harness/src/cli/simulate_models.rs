//! Flags of the discrete-event model of `simulate`.

use gpubench_predict::PredictError;
use gpubench_predict::simulate::from_text;
use gpubench_predict::simulate::scenario::Scenario;

use super::predicting::{NUMBER, number, parse};

/// Flags of the discrete-event model; each of them selects it.
#[derive(Debug, clap::Args)]
pub(super) struct EventArgs {
    /// Use the discrete-event model
    #[arg(long)]
    event: bool,
    /// Service-time distribution: deterministic, exponential, erlang:K, log-normal:CV,
    /// hyper-exponential:CV
    #[arg(long, value_name = "LAW")]
    service: Option<String>,
    /// Bursty arrivals, mean length of bursts and pauses: ON_MS:OFF_MS
    #[arg(long, value_name = "MS:MS")]
    bursts: Option<String>,
    /// Time-slicing and HAMi: longest time slice
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    pub(super) quantum_ms: Option<String>,
    /// Warm-up time, excluded from the figures
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    warmup_s: Option<String>,
    /// GPU that defines the MIG profiles, for example A100-80
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// MIG profile of each tenant (separate by commas)
    #[arg(long, value_name = "PROFILE", value_delimiter = ',')]
    mig: Vec<String>,
    /// Share of the SMs that one request occupies (default: 1 / tenants)
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    width: Option<String>,
    /// MPS: active-thread percentage
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    mps_percent: Option<String>,
    /// HAMi: share of device time of each tenant
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
        number(&mut event.warmup_s, "warmup_s", &self.warmup_s)?;
        number(&mut event.mps_percent, "mps_percent", &self.mps_percent)?;
        event.quantum_ms = parse("quantum_ms", &self.quantum_ms, NUMBER)?.or(event.quantum_ms);
        event.width = parse("width", &self.width, NUMBER)?.or(event.width);
        event.hami_percent =
            parse("hami_percent", &self.hami_percent, NUMBER)?.or(event.hami_percent);
        event.gpu = self.gpu.clone().or(event.gpu);
        if !self.mig.is_empty() {
            event.mig.clone_from(&self.mig);
        }
        if let Some(given) = &self.service {
            event.service = from_text::service_kind(given)?;
        }
        if let Some(given) = &self.bursts {
            event.arrivals = from_text::bursts(given)?;
        }
        scenario.event = Some(event);
        Ok(())
    }
}
