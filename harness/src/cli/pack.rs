//! `gpubench pack`: how many tenants fit, which resource binds, what the fleet costs and idles.

use std::path::PathBuf;

use gpubench_predict::PredictError;
use gpubench_predict::pack::chargeback::{Charge, Used, chargeback};
use gpubench_predict::pack::cost::Price;
use gpubench_predict::pack::demand::{Kind, kinds_of_record};
use gpubench_predict::pack::{Demand, output, report};
use gpubench_predict::text::json_text;
use gpubench_record::ExitCode;
use gpubench_record::sample::MISSING;
use gpubench_reports::Record;

use super::common::exit_codes_help;
use super::predicting::{NUMBER, number, parse, read_record, read_text, unknown, write};
use super::ui::Ui;
use crate::error::ExpectedError;

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::OutputFailed,
];

/// Computes how many tenants fit on a GPU by mechanism, and the cost of a fleet
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Demand file in TOML; flags override its values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// GPU model, for example A100-80 or H200-141
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// Memory of one GPU, for a model that the MIG tables lack
    #[arg(long, value_name = "GB", allow_hyphen_values = true)]
    memory_gb: Option<String>,
    /// Number of tenants
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    tenants: Option<String>,
    /// Memory of one tenant
    #[arg(long, value_name = "GB", allow_hyphen_values = true)]
    tenant_memory_gb: Option<String>,
    /// Share of the GPU's compute that one tenant needs
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    tenant_compute: Option<String>,
    /// Planned utilisation of a GPU
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    target: Option<String>,
    /// Rental price of one GPU per hour
    #[arg(long, value_name = "MONEY", allow_hyphen_values = true)]
    price_per_hour: Option<String>,
    /// Purchase price of one GPU; needs --price-per-year and --years
    #[arg(long, value_name = "MONEY", allow_hyphen_values = true)]
    purchase: Option<String>,
    /// Running costs of a purchased GPU per year
    #[arg(long, value_name = "MONEY", allow_hyphen_values = true)]
    price_per_year: Option<String>,
    /// Depreciation period of the purchase in years
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    years: Option<String>,
    /// Take the compute demand from a record; needs --tenant-memory-gb
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Bill the tenants of the record for their measured GPU time
    #[arg(long, requires = "from")]
    chargeback: bool,
    /// Output format: table, json
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Packs and prints.
///
/// # Errors
/// When an input is wrong, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let is_json = match args.format.as_str() {
        "json" => true,
        "table" => false,
        other => return Err(unknown("format", other, "table, json").into()),
    };
    let text = if args.chargeback {
        let bill = args.bill()?;
        if is_json {
            json_text(&bill)?
        } else {
            output::bill(&bill)
        }
    } else {
        let found = report(&args.demand()?)?;
        if is_json {
            output::json(&found)?
        } else {
            output::table(&found)
        }
    };
    write(args.output.as_deref(), &text, ui)?;
    Ok(ExitCode::Done)
}

impl Args {
    fn demand(&self) -> Result<Demand, ExpectedError> {
        let mut demand = match &self.config {
            None => Demand::default(),
            Some(path) => Demand::from_toml(&read_text("demand", path)?)?,
        };
        demand.gpu = self.gpu.clone().or(demand.gpu);
        demand.memory_gb = parse("memory_gb", &self.memory_gb, NUMBER)?.or(demand.memory_gb);
        number(&mut demand.target, "target", &self.target)?;
        demand.price = self.price()?.or(demand.price);
        if let Some(path) = &self.from {
            let memory_gb = self.needed("tenant_memory_gb", &self.tenant_memory_gb)?;
            demand.tenant = kinds_of_record(&read_record(path)?, memory_gb)?;
        } else if self.tenant_memory_gb.is_some() || self.tenant_compute.is_some() {
            demand.tenant = vec![self.kind()?];
        }
        if let Some(count) = parse("tenants", &self.tenants, "a whole number of at least 1")? {
            for kind in &mut demand.tenant {
                kind.count = count;
            }
        }
        Ok(demand)
    }

    fn kind(&self) -> Result<Kind, PredictError> {
        Ok(Kind {
            name: "tenant".to_owned(),
            count: 1,
            memory_gb: Some(self.needed("tenant_memory_gb", &self.tenant_memory_gb)?),
            parameters_billion: None,
            bytes_per_parameter: None,
            cache_gb: None,
            compute: self.needed("tenant_compute", &self.tenant_compute)?,
            utilisation: None,
        })
    }

    fn price(&self) -> Result<Option<Price>, PredictError> {
        let rent = parse("price_per_hour", &self.price_per_hour, NUMBER)?;
        let owned = [&self.purchase, &self.price_per_year, &self.years];
        let is_owned = owned.iter().any(|flag| flag.is_some());
        match rent {
            Some(_) if is_owned => Err(PredictError::value(
                "price_per_hour",
                "given beside a purchase",
                "either --price-per-hour, or --purchase, --price-per-year and --years",
            )),
            Some(per_hour) => Ok(Some(Price::Rent { per_hour })),
            None if is_owned => Ok(Some(Price::Own {
                purchase: self.needed("purchase", &self.purchase)?,
                per_year: self.needed("price_per_year", &self.price_per_year)?,
                years: self.needed("years", &self.years)?,
            })),
            None => Ok(None),
        }
    }

    fn needed(&self, name: &str, given: &Option<String>) -> Result<f64, PredictError> {
        parse(name, given, NUMBER)?.ok_or_else(|| PredictError::Missing {
            what: name.to_owned(),
            remedy: format!("give --{}", name.replace('_', "-")),
        })
    }

    /// GPU time of every tenant's requests, from the samples of the record.
    fn bill(&self) -> Result<Vec<Charge>, ExpectedError> {
        let Some(path) = &self.from else {
            return Ok(Vec::new());
        };
        let unreadable = |problem: String| ExpectedError::RecordUnreadable {
            path: path.clone(),
            problem,
        };
        let record = Record::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut used = Vec::new();
        let mut without = 0_u64;
        for cell in &record.run().cells {
            for tenant in &cell.tenant_results {
                let rows = record.samples(&cell.cell.id, &tenant.planned.tenant);
                let rows = rows.map_err(|error| unreadable(error.to_string()))?;
                let timed = rows
                    .iter()
                    .map(|row| row.gpu_ns)
                    .filter(|ns| *ns != MISSING);
                without += rows.iter().filter(|row| row.gpu_ns == MISSING).count() as u64;
                let workload = tenant.planned.workload.as_deref().unwrap_or("idle");
                used.push(Used {
                    tenant: format!("{} ({workload})", tenant.planned.tenant),
                    gpu_time_s: timed.map(|ns| ns as f64 / 1e9).sum(),
                });
            }
        }
        if used.iter().all(|used| used.gpu_time_s == 0.0) {
            return Err(unreadable(format!(
                "no request has a measured GPU time ({without} have none)"
            )));
        }
        Ok(chargeback(&used, self.price()?.as_ref()))
    }
}
