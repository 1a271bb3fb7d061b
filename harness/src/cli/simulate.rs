//! `gpubench simulate`: the queueing model, from flags, a file, or a record.
//!
//! Flags lie over the file, and both over nothing but defaults; a record lies between them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use gpubench_predict::calibrate::{self, Choices};
use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::output::{csv, html, json, svg, table};
use gpubench_predict::simulate::report::{Report, Request, report};
use gpubench_predict::simulate::scenario::{Scenario, TenantOverride};
use gpubench_predict::{PredictError, text};
use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::predicting::{NUMBER, parse, read_record, read_text, set, unknown, write};
use super::simulate_event::EventArgs;
use super::ui::Ui;
use crate::error::ExpectedError;

/// Predicts latencies of tenants that share a GPU, before anyone buys or partitions one
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(&[
    ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed,
]))]
pub struct Args {
    /// Scenario in TOML; flags change it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Tenants
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
    /// How long requests arrive
    #[arg(
        long,
        value_name = "S",
        visible_alias = "duration",
        allow_hyphen_values = true
    )]
    duration_s: Option<String>,
    /// Under MPS, how much every busy tenant stretches a request
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    contention: Option<String>,
    /// Under time-slicing, what a change of tenant costs
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    switch_ms: Option<String>,
    /// Equal parts into which MIG cuts the device (default: as many as tenants)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    slices: Option<String>,
    /// A tenant that differs: INDEX:service-ms=MS,rate-per-s=R (repeat for others)
    #[arg(long, value_name = "TENANT")]
    tenant: Vec<String>,
    /// One tenant takes more than its share
    #[arg(long)]
    hostile: bool,
    /// Which tenant is hostile
    #[arg(long, value_name = "INDEX", allow_hyphen_values = true)]
    hostile_tenant: Option<String>,
    /// By how much its requests are longer
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    hostile_service: Option<String>,
    /// By how much its requests are more frequent
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    hostile_rate: Option<String>,
    /// Contention that co-residents feel under MPS while it is busy
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    hostile_contention: Option<String>,
    /// Generator: fast, or numpy for the figures of NumPy's `default_rng`
    #[arg(long, value_name = "RNG")]
    rng: Option<String>,
    /// Seed of the generator
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Replications; from two on, intervals are printed
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        allow_hyphen_values = true
    )]
    replications: String,
    /// What intervals cover
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
    /// Threads (default: one per core)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    threads: Option<String>,
    /// Take parameters from a record, and print prediction beside measurement
    #[arg(long, value_name = "RECORD")]
    calibrate: Option<PathBuf>,
    /// Victim of the record whose figures are taken
    #[arg(long, value_name = "NAME")]
    victim: Option<String>,
    /// How to print: table, json, csv, svg, html
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: String,
    /// File to write, in place of standard output
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
    // A flag says more about what is meant than a record does, so flags go on top.
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
        set(
            &mut scenario.service_ms,
            "service_ms",
            &self.service_ms,
            NUMBER,
        )?;
        set(
            &mut scenario.rate_per_s,
            "rate_per_s",
            &self.rate_per_s,
            NUMBER,
        )?;
        set(
            &mut scenario.duration_s,
            "duration_s",
            &self.duration_s,
            NUMBER,
        )?;
        set(
            &mut scenario.contention,
            "contention",
            &self.contention,
            NUMBER,
        )?;
        set(
            &mut scenario.switch_ms,
            "switch_ms",
            &self.switch_ms,
            NUMBER,
        )?;
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
            let change = tenant(given)?;
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
        set(
            &mut hostile.service_factor,
            "hostile_service",
            &self.hostile_service,
            NUMBER,
        )?;
        set(
            &mut hostile.rate_factor,
            "hostile_rate",
            &self.hostile_rate,
            NUMBER,
        )?;
        set(
            &mut hostile.contention,
            "hostile_contention",
            &self.hostile_contention,
            NUMBER,
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
        set(
            &mut choices.slice_ms,
            "quantum_ms",
            &self.event.quantum_ms,
            NUMBER,
        )?;
        Ok(choices)
    }

    fn request(&self, scenario: Scenario) -> Result<Request, PredictError> {
        let needs_sweep = ["svg", "html"].contains(&self.format.as_str());
        let loads = match &self.loads {
            Some(given) => loads(given)?,
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

fn tenant(given: &str) -> Result<TenantOverride, PredictError> {
    let accepted = "INDEX:service-ms=MS,rate-per-s=R";
    let wrong = || PredictError::value("tenant", given, accepted);
    let (index, rest) = given.split_once(':').ok_or_else(wrong)?;
    let index = index.parse().map_err(|_| wrong())?;
    let mut change = TenantOverride {
        index,
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

fn loads(given: &str) -> Result<Vec<f64>, PredictError> {
    let wrong = || PredictError::value("loads", given, "a list as 0.1,0.5, or FROM..TO:COUNT");
    let Some((range, count)) = given.split_once(':') else {
        return given
            .split(',')
            .map(|load| load.trim().parse().map_err(|_| wrong()))
            .collect();
    };
    let (from, to) = range.split_once("..").ok_or_else(wrong)?;
    let (from, to): (f64, f64) = (
        from.parse().map_err(|_| wrong())?,
        to.parse().map_err(|_| wrong())?,
    );
    let count: u16 = count
        .parse()
        .ok()
        .filter(|count| *count >= 2)
        .ok_or_else(wrong)?;
    let step = (to - from) / f64::from(count - 1);
    Ok((0..count)
        .map(|number| from + step * f64::from(number))
        .collect())
}
