//! `gpubench simulate`: the queueing model, from flags, a file, or a record.
//!
//! A flag overrides a record, a record overrides the file, and the file overrides the defaults.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use gpubench_predict::calibrate;
use gpubench_predict::calibrate::Choices;
use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::chart::chart;
use gpubench_predict::simulate::event::EventOptions;
use gpubench_predict::simulate::event::options::{ArrivalKind, ServiceKind};
use gpubench_predict::simulate::limits::{REPLICATIONS_MAX, THREADS_MAX};
use gpubench_predict::simulate::output::{csv, page};
use gpubench_predict::simulate::report::{Report, Request, report};
use gpubench_predict::simulate::scenario::{Hostile, Loads, MAX_TENANTS, Scenario, TenantOverride};
use gpubench_predict::simulate::sweep::default_loads;
use gpubench_record::ExitCode;

use super::common::{OutputFlag, exit_codes_help, versioned_json, whole};
use super::predicting::{
    confidence, mig_gpu, not_negative, one_of, percent, positive, read_record, read_text, share,
};
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Predicts latencies of tenants that share a GPU, by a queueing model
///
/// Every flag has a default, here the load of a published example. The figures are predictions of
/// a model; --calibrate compares them with the measurements of a record.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES), allow_negative_numbers = true)]
pub struct Args {
    /// Scenario file in TOML; flags override its values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of tenants, 1 to 1024 [default: 7]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, MAX_TENANTS.into()))]
    tenants: Option<u32>,
    /// Service time of a request on the whole device, above 0 [default: 10]
    #[arg(long, value_name = "MS", value_parser = positive)]
    service_ms: Option<f64>,
    /// Requests per second of each tenant, above 0 [default: 12]
    #[arg(long, value_name = "PER_S", visible_alias = "rate", value_parser = positive)]
    rate_per_s: Option<f64>,
    /// Simulated time, above 0 [default: 60]
    #[arg(long, value_name = "S", visible_alias = "duration", value_parser = positive)]
    duration_s: Option<f64>,
    /// Values of one tenant, INDEX:service-ms=MS,rate-per-s=R (repeatable)
    #[arg(long, value_name = "TENANT")]
    tenant: Vec<TenantOverride>,
    /// MPS: factor by which each other busy tenant lengthens a request [default: 0.18]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    contention: Option<f64>,
    /// Time-slicing: cost of a context switch [default: 0.8]
    #[arg(long, value_name = "MS", value_parser = not_negative)]
    switch_ms: Option<f64>,
    /// MIG: number of equal instances, at least 1 [default: one per tenant]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u64::MAX))]
    slices: Option<u32>,
    /// Random generator; numpy draws the numbers of NumPy's `default_rng` [default: fast]
    #[arg(long, value_name = "RNG", value_parser = one_of(RNGS))]
    rng: Option<RngKind>,
    /// Seed of the random generator [default: 7]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    seed: Option<u64>,
    #[command(flatten)]
    hostile: Option<HostileArgs>,
    #[command(flatten)]
    event: Option<EventArgs>,
    #[command(flatten)]
    run: RunArgs,
}

/// How the scenario is simulated and printed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run and output")]
struct RunArgs {
    /// Number of replications, 1 to 100000; 2 or more give intervals
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = whole::<u32>(1, REPLICATIONS_MAX.into()),
    )]
    replications: u32,
    /// Confidence of the intervals, above 0 and below 1
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = confidence)]
    confidence: f64,
    /// Device loads to sweep: a list such as 0.1,0.5, or FROM..TO:COUNT
    #[arg(long, value_name = "LOADS", allow_hyphen_values = true)]
    loads: Option<Loads>,
    /// Worker threads, 1 to 1024 [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, THREADS_MAX as u64))]
    threads: Option<usize>,
    /// Take the parameters from a record, and compare prediction and measurement
    #[arg(long, value_name = "RECORD")]
    calibrate: Option<PathBuf>,
    /// Victim of the record that gives the parameters [default: its first]
    #[arg(long, value_name = "NAME", requires = "calibrate")]
    victim: Option<String>,
    /// Output format; svg and html plot a sweep
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    output: OutputFlag,
}

const RNGS: &[(&str, RngKind)] = &[("fast", RngKind::Fast), ("numpy", RngKind::Numpy)];

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    #[value(alias = "table")]
    Text,
    Json,
    Csv,
    Svg,
    Html,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let with_flags = args.scenario()?;
    let calibrated = match &args.run.calibrate {
        None => None,
        Some(path) => {
            Some(calibrate::calibrate(&read_record(path, ui)?, &args.choices(&with_flags))?)
        }
    };
    // Flags override the record.
    let scenario = match &calibrated {
        None => with_flags,
        Some(calibrated) => args.apply(calibrated.applied(&with_flags)),
    };
    let found = report(&args.request(scenario))?;
    let parameters = || calibrated.as_ref().map(calibrate::output::blocks).unwrap_or_default();
    let document = || page(&found, parameters());
    let text = match args.run.format {
        Format::Json => match &calibrated {
            None => versioned_json("simulate", &found)?,
            Some(calibrated) => {
                let both = serde_json::json!({ "calibrated": calibrated });
                merged_json(&found, both)?
            }
        },
        Format::Csv => csv(&found),
        Format::Svg => found.sweep.as_ref().map(|sweep| chart(sweep).svg).unwrap_or_default(),
        Format::Html => document().html(),
        Format::Text => document().text(args.run.output.look(ui)),
    };
    args.run.output.write(&text, ui)?;
    Ok(ExitCode::Done)
}

fn merged_json(found: &Report, more: serde_json::Value) -> Result<String, ExpectedError> {
    let internal = ExpectedError::internal;
    let mut value = serde_json::to_value(found).map_err(internal)?;
    if let (Some(object), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
        object.extend(more);
    }
    versioned_json("simulate", &value)
}

impl Args {
    /// The file or the defaults, with the flags applied.
    fn scenario(&self) -> Result<Scenario, ExpectedError> {
        let scenario = match &self.config {
            None => Scenario::default(),
            Some(path) => Scenario::from_toml(&read_text("scenario", path)?)?,
        };
        let scenario = self.apply(scenario);
        scenario.check()?;
        Ok(scenario)
    }

    fn apply(&self, mut scenario: Scenario) -> Scenario {
        set(&mut scenario.tenants, self.tenants);
        set(&mut scenario.service_ms, self.service_ms);
        set(&mut scenario.rate_per_s, self.rate_per_s);
        set(&mut scenario.duration_s, self.duration_s);
        set(&mut scenario.contention, self.contention);
        set(&mut scenario.switch_ms, self.switch_ms);
        set(&mut scenario.seed, self.seed);
        set(&mut scenario.rng, self.rng);
        if self.slices.is_some() {
            (scenario.slices, scenario.slice_speed) = (self.slices, None);
        }
        for change in &self.tenant {
            scenario.tenant.retain(|other| other.index != change.index);
            scenario.tenant.push(change.clone());
        }
        if let Some(flags) = &self.hostile {
            flags.apply(scenario.hostile.get_or_insert_default());
        }
        if let Some(flags) = &self.event {
            flags.apply(scenario.event.get_or_insert_default());
        }
        scenario
    }

    fn choices(&self, scenario: &Scenario) -> Choices {
        let mut choices =
            Choices { victim: self.run.victim.clone(), seed: scenario.seed, ..Choices::default() };
        let quantum_ms = self.event.as_ref().and_then(|event| event.quantum_ms);
        set(&mut choices.slice_ms, quantum_ms);
        choices
    }

    fn request(&self, scenario: Scenario) -> Request {
        let plots_sweep = [Format::Svg, Format::Html].contains(&self.run.format);
        let loads = match &self.run.loads {
            Some(Loads(loads)) => loads.clone(),
            None if plots_sweep => default_loads(),
            None => Vec::new(),
        };
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Request {
            scenario,
            replications: self.run.replications,
            coverage: self.run.confidence,
            loads,
            threads: self.run.threads.and_then(NonZeroUsize::new).unwrap_or(cores),
        }
    }
}

// Flags of `simulate` that describe a hostile tenant or select the discrete-event model.

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

pub(super) fn set<T>(value: &mut T, flag: Option<T>) {
    if let Some(flag) = flag {
        *value = flag;
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;
    use gpubench_predict::simulate::scenario::{Hostile, Scenario};

    #[test]
    fn help_names_the_defaults_of_a_scenario() {
        let command = super::Args::augment_args(clap::Command::new("simulate"));
        let (scenario, hostile) = (Scenario::default(), Hostile::default());
        for (flag, default) in [
            ("tenants", f64::from(scenario.tenants)),
            ("service_ms", scenario.service_ms),
            ("rate_per_s", scenario.rate_per_s),
            ("duration_s", scenario.duration_s),
            ("contention", scenario.contention),
            ("switch_ms", scenario.switch_ms),
            ("seed", scenario.seed as f64),
            ("hostile_tenant", f64::from(hostile.tenant)),
            ("hostile_service", hostile.service_factor),
            ("hostile_rate", hostile.rate_factor),
            ("hostile_contention", hostile.contention),
        ] {
            let arg = command.get_arguments().find(|arg| arg.get_id() == flag);
            let help = arg.and_then(clap::Arg::get_help).map(ToString::to_string);
            let wanted = format!("[default: {default}]");
            assert!(help.is_some_and(|help| help.ends_with(&wanted)), "{flag}: {wanted}");
        }
    }
}
