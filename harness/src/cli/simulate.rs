//! `gpubench simulate`: the queueing model, from flags, a file, or a record.
//!
//! A flag overrides a record, a record overrides the file, and the file overrides the defaults.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use gpubench_predict::calibrate::{self, Choices};
use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::from_text;
use gpubench_predict::simulate::output::{csv, html, json, svg, table};
use gpubench_predict::simulate::report::{Report, Request, report};
use gpubench_predict::simulate::scenario::Scenario;
use gpubench_predict::{PredictError, text};
use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::predicting::{NUMBER, number, parse, read_record, read_text, set, unknown, write};
use super::simulate_event::EventArgs;
use super::ui::Ui;
use crate::error::ExpectedError;

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::OutputFailed,
];

/// Predicts latencies of tenants that share a GPU, by a queueing model
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Scenario file in TOML; flags override its values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of tenants
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    tenants: Option<String>,
    /// Service time of a request on the whole device
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    service_ms: Option<String>,
    /// Requests per second of each tenant
    #[arg(
        long,
        value_name = "PER_S",
        visible_alias = "rate",
        allow_hyphen_values = true
    )]
    rate_per_s: Option<String>,
    /// Simulated time
    #[arg(
        long,
        value_name = "S",
        visible_alias = "duration",
        allow_hyphen_values = true
    )]
    duration_s: Option<String>,
    /// MPS: factor by which each other busy tenant lengthens a request
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    contention: Option<String>,
    /// Time-slicing: cost of a context switch
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    switch_ms: Option<String>,
    /// MIG: number of equal instances (default: one per tenant)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    slices: Option<String>,
    /// Values of one tenant: INDEX:service-ms=MS,rate-per-s=R (repeatable)
    #[arg(long, value_name = "TENANT")]
    tenant: Vec<String>,
    /// One tenant exceeds its share
    #[arg(long)]
    hostile: bool,
    /// Index of the hostile tenant
    #[arg(long, value_name = "INDEX", allow_hyphen_values = true)]
    hostile_tenant: Option<String>,
    /// Factor on its service time
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    hostile_service: Option<String>,
    /// Factor on its request rate
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    hostile_rate: Option<String>,
    /// MPS: contention factor of the other tenants while it is busy
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    hostile_contention: Option<String>,
    /// Random generator: fast, or numpy (the numbers of NumPy's `default_rng`)
    #[arg(long, value_name = "RNG")]
    rng: Option<String>,
    /// Seed of the random generator
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Number of replications; two or more give intervals
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        allow_hyphen_values = true
    )]
    replications: String,
    /// Confidence of the intervals, between 0 and 1
    #[arg(
        long,
        value_name = "P",
        default_value = "0.95",
        allow_hyphen_values = true
    )]
    confidence: String,
    /// Device loads to sweep: a list, or FROM..TO:COUNT
    #[arg(long, value_name = "LOADS", allow_hyphen_values = true)]
    loads: Option<String>,
    /// Worker threads (default: one per core)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    threads: Option<String>,
    /// Take the parameters from a record and print prediction beside measurement
    #[arg(long, value_name = "RECORD")]
    calibrate: Option<PathBuf>,
    /// Victim of the record that gives the parameters
    #[arg(long, value_name = "NAME")]
    victim: Option<String>,
    /// Output format: table, json, csv, svg, html
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Simulates and prints.
///
/// # Errors
/// When an input is wrong, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let formats = ["table", "json", "csv", "svg", "html"];
    if !formats.contains(&args.format.as_str()) {
        let known = formats.join(", ");
        return Err(unknown("format", &args.format, known).into());
    }
    let flagged = args.scenario()?;
    let calibrated = match &args.calibrate {
        None => None,
        Some(path) => Some(calibrate::calibrate(
            &read_record(path)?,
            &args.choices(&flagged)?,
        )?),
    };
    // Flags override the record.
    let scenario = match &calibrated {
        None => flagged,
        Some(calibrated) => args.flags_over(calibrated.applied(&flagged))?,
    };
    let found = report(&args.request(scenario)?)?;
    let text = match args.format.as_str() {
        "json" => match &calibrated {
            None => json(&found)?,
            Some(calibrated) => {
                let both = serde_json::json!({ "calibrated": calibrated });
                merged_json(&found, both)?
            }
        },
        "csv" => csv(&found),
        "svg" => found.sweep.as_ref().map(svg).unwrap_or_default(),
        "html" => html(&found),
        _ => {
            let above = calibrated.as_ref().map(calibrate::output::table);
            above.map(|text| text + "\n").unwrap_or_default() + &table(&found)
        }
    };
    write(args.output.as_deref(), &text, ui)?;
    Ok(ExitCode::Done)
}

fn merged_json(found: &Report, more: serde_json::Value) -> Result<String, ExpectedError> {
    let internal = |error: serde_json::Error| ExpectedError::Internal {
        what: error.to_string(),
    };
    let mut value = serde_json::to_value(found).map_err(internal)?;
    if let (Some(object), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
        object.extend(more);
    }
    Ok(text::json_text(&value)?)
}

impl Args {
    fn scenario(&self) -> Result<Scenario, ExpectedError> {
        let scenario = match &self.config {
            None => Scenario::default(),
            Some(path) => Scenario::from_toml(&read_text("scenario", path)?)?,
        };
        let scenario = self.flags_over(scenario)?;
        scenario.check()?;
        Ok(scenario)
    }

    fn flags_over(&self, mut scenario: Scenario) -> Result<Scenario, ExpectedError> {
        let natural = "a whole number";
        set(&mut scenario.tenants, "tenants", &self.tenants, natural)?;
        number(&mut scenario.service_ms, "service_ms", &self.service_ms)?;
        number(&mut scenario.rate_per_s, "rate_per_s", &self.rate_per_s)?;
        number(&mut scenario.duration_s, "duration_s", &self.duration_s)?;
        number(&mut scenario.contention, "contention", &self.contention)?;
        number(&mut scenario.switch_ms, "switch_ms", &self.switch_ms)?;
        set(&mut scenario.seed, "seed", &self.seed, natural)?;
        if let Some(slices) = parse("slices", &self.slices, natural)? {
            (scenario.slices, scenario.slice_speed) = (Some(slices), None);
        }
        scenario.rng = match self.rng.as_deref() {
            None => scenario.rng,
            Some("fast") => RngKind::Fast,
            Some("numpy") => RngKind::Numpy,
            Some(other) => return Err(unknown("generator", other, "fast, numpy").into()),
        };
        for given in &self.tenant {
            let change = from_text::tenant_override(given)?;
            scenario.tenant.retain(|other| other.index != change.index);
            scenario.tenant.push(change);
        }
        self.hostile_over(&mut scenario)?;
        self.event.over(&mut scenario)?;
        Ok(scenario)
    }

    fn hostile_over(&self, scenario: &mut Scenario) -> Result<(), PredictError> {
        let flags = [
            &self.hostile_tenant,
            &self.hostile_service,
            &self.hostile_rate,
            &self.hostile_contention,
        ];
        if !self.hostile && flags.iter().all(|flag| flag.is_none()) {
            return Ok(());
        }
        let mut hostile = scenario.hostile.take().unwrap_or_default();
        set(
            &mut hostile.tenant,
            "hostile_tenant",
            &self.hostile_tenant,
            "a whole number",
        )?;
        number(
            &mut hostile.service_factor,
            "hostile_service",
            &self.hostile_service,
        )?;
        number(&mut hostile.rate_factor, "hostile_rate", &self.hostile_rate)?;
        number(
            &mut hostile.contention,
            "hostile_contention",
            &self.hostile_contention,
        )?;
        scenario.hostile = Some(hostile);
        Ok(())
    }

    fn choices(&self, scenario: &Scenario) -> Result<Choices, PredictError> {
        let mut choices = Choices {
            victim: self.victim.clone(),
            ..Choices::default()
        };
        choices.seed = scenario.seed;
        number(&mut choices.slice_ms, "quantum_ms", &self.event.quantum_ms)?;
        Ok(choices)
    }

    fn request(&self, scenario: Scenario) -> Result<Request, PredictError> {
        let needs_sweep = ["svg", "html"].contains(&self.format.as_str());
        let loads = match &self.loads {
            Some(given) => from_text::loads(given)?,
            None if needs_sweep => (1..=24).map(|step| f64::from(step) * 0.05).collect(),
            None => Vec::new(),
        };
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let natural = "a whole number of at least 1";
        let replications = Some(self.replications.clone());
        Ok(Request {
            scenario,
            replications: parse("replications", &replications, natural)?.unwrap_or(1),
            coverage: parse("confidence", &Some(self.confidence.clone()), NUMBER)?.unwrap_or(0.95),
            loads,
            threads: parse("threads", &self.threads, natural)?.unwrap_or(cores),
        })
    }
}
