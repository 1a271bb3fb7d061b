//! `gpubench simulate`: the queueing model, from flags, a file, or a record.
//!
//! A flag overrides a record, a record overrides the file, and the file overrides the defaults.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use gpubench_predict::calibrate::{self, Choices};
use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::limits::{REPLICATIONS_MAX, THREADS_MAX};
use gpubench_predict::simulate::output::{csv, html, json, svg, table};
use gpubench_predict::simulate::report::{Report, Request, report};
use gpubench_predict::simulate::scenario::Loads;
use gpubench_predict::simulate::scenario::{MAX_TENANTS, Scenario, TenantOverride};
use gpubench_predict::simulate::sweep::default_loads;
use gpubench_predict::text;
use gpubench_record::ExitCode;

use super::common::{OutputFlag, exit_codes_help, whole};
use super::predicting::{confidence, not_negative, one_of, positive, read_record, read_text};
use super::simulate_models::{EventArgs, HostileArgs, set};
use super::ui::Ui;
use crate::error::ExpectedError;

/// The exit codes of this verb.
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
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    #[command(flatten)]
    output: OutputFlag,
}

/// The generators by name.
const RNGS: &[(&str, RngKind)] = &[("fast", RngKind::Fast), ("numpy", RngKind::Numpy)];

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
    Svg,
    Html,
}

/// Simulates and prints.
///
/// # Errors
/// When an input is wrong, or the output cannot be written.
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
    let text = match args.run.format {
        Format::Json => match &calibrated {
            None => json(&found)?,
            Some(calibrated) => {
                let both = serde_json::json!({ "calibrated": calibrated });
                merged_json(&found, both)?
            }
        },
        Format::Csv => csv(&found),
        Format::Svg => found.sweep.as_ref().map(svg).unwrap_or_default(),
        Format::Html => html(&found),
        Format::Table => {
            let above = calibrated.as_ref().map(calibrate::output::table);
            above.map(|text| text + "\n").unwrap_or_default() + &table(&found)
        }
    };
    args.run.output.write(&text, ui)?;
    Ok(ExitCode::Done)
}

fn merged_json(found: &Report, more: serde_json::Value) -> Result<String, ExpectedError> {
    let internal = |error: serde_json::Error| ExpectedError::Internal { what: error.to_string() };
    let mut value = serde_json::to_value(found).map_err(internal)?;
    if let (Some(object), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
        object.extend(more);
    }
    Ok(text::json_text(&value)?)
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
