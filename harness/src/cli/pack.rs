//! `gpubench pack`: tenants per GPU, the binding resource, and the cost of a fleet.

use std::path::PathBuf;

use gpubench_predict::PredictError;
use gpubench_predict::pack::bound::Price;
use gpubench_predict::pack::bound::{Bill, Charge, Used, chargeback};
use gpubench_predict::pack::demand::{Kind, MAX_TENANTS, kinds_of_record};
use gpubench_predict::pack::{Demand, output, report};
use gpubench_record::ExitCode;
use gpubench_show::Page;
use gpubench_store::Record;
use serde::Serialize;

use super::common::{OutputFlag, TextFormat, exit_codes_help, versioned_json, whole};
use super::predicting::{
    mig_gpu, not_negative, positive, read_record, read_text, say_damage, share,
};
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Computes how many tenants fit on a GPU by mechanism, and the cost of a fleet
///
/// Needs the GPU (--gpu or --memory-gb), and memory and compute of a tenant (--tenant-memory-gb
/// with --tenant-compute or --from), or all of them in a file (--config).
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES), allow_negative_numbers = true)]
pub struct Args {
    /// Demand file in TOML, also for several kinds of tenants; flags override its values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// GPU model with MIG, for example A100-80 or H200-141
    #[arg(
        long,
        value_name = "GPU",
        value_parser = mig_gpu,
    )]
    gpu: Option<String>,
    /// Memory of one GPU in decimal gigabytes, above 0; for other models than those of --gpu
    #[arg(long, value_name = "GB", value_parser = positive)]
    memory_gb: Option<f64>,
    /// Number of tenants, 1 to 100000 [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, MAX_TENANTS))]
    tenants: Option<u64>,
    /// Memory of one tenant in decimal gigabytes, above 0, its context (about 0.5) included
    #[arg(
        long,
        value_name = "GB",
        value_parser = positive,
    )]
    tenant_memory_gb: Option<f64>,
    /// Share of the GPU's compute that one tenant needs, up to 1
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = share,
        conflicts_with = "from",
        requires = "tenant_memory_gb",
    )]
    tenant_compute: Option<f64>,
    /// Planned utilisation of a GPU, up to 1 [default: 0.75]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    target: Option<f64>,
    /// Take the compute demand of the victims from a record; needs --tenant-memory-gb
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Bill the tenants of the record for their measured GPU time
    #[arg(
        long,
        requires = "from",
        conflicts_with_all = [
            "config", "gpu", "memory_gb", "tenants", "tenant_memory_gb", "target",
        ],
    )]
    chargeback: bool,
    #[command(flatten)]
    price: PriceArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    format: TextFormat,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputFlag,
}

/// The price of a GPU: rented or purchased.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Price (rented or purchased)")]
struct PriceArgs {
    /// Rent of one GPU per hour
    #[arg(
        long,
        value_name = "MONEY",
        value_parser = not_negative,
        conflicts_with_all = ["purchase", "price_per_year", "years"],
    )]
    price_per_hour: Option<f64>,
    /// Purchase price of one GPU; needs --price-per-year and --years
    #[arg(
        long,
        value_name = "MONEY",
        value_parser = not_negative,
        requires_all = ["price_per_year", "years"],
    )]
    purchase: Option<f64>,
    /// Running costs of a purchased GPU per year
    #[arg(long, value_name = "MONEY", value_parser = not_negative, requires = "purchase")]
    price_per_year: Option<f64>,
    /// Depreciation period of the purchase in years, above 0
    #[arg(long, value_name = "N", value_parser = positive, requires = "purchase")]
    years: Option<f64>,
}

impl PriceArgs {
    fn price(&self) -> Option<Price> {
        if let Some(per_hour) = self.price_per_hour {
            return Some(Price::Rent { per_hour });
        }
        Some(Price::Own {
            purchase: self.purchase?,
            per_year: self.price_per_year?,
            years: self.years?,
        })
    }
}

/// What a call without a file needs, each with its alternatives.
const GPU: &str = "--gpu or --memory-gb";
const MEMORY: &str = "--tenant-memory-gb";
const COMPUTE: &str = "--tenant-compute or --from";

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let missing = args.missing();
    if !missing.is_empty() {
        let problem = format!("missing: {}", missing.join("; "));
        return Err(ExpectedError::usage(problem, Some("or give a file with all of it: --config")));
    }
    if args.chargeback {
        let bill = args.bill(ui)?;
        let page = output::bill(&bill);
        args.write(&Bill::of(bill), page, ui)?;
    } else {
        let found = report(&args.demand(ui)?)?;
        args.write(&found, output::page(&found), ui)?;
    }
    Ok(ExitCode::Done)
}

impl Args {
    fn write(&self, found: &impl Serialize, page: Page, ui: &Ui) -> Result<(), ExpectedError> {
        let text = match self.format {
            TextFormat::Text => page.text(self.output.look(ui)),
            TextFormat::Json => versioned_json("pack", found)?,
        };
        self.output.write(&text, ui)
    }

    /// What no flag gives, and no file can.
    fn missing(&self) -> Vec<&'static str> {
        if self.chargeback || self.config.is_some() {
            return Vec::new();
        }
        let has_compute = self.tenant_compute.is_some() || self.from.is_some();
        let given = [
            (self.gpu.is_some() || self.memory_gb.is_some(), GPU),
            (self.tenant_memory_gb.is_some(), MEMORY),
            (has_compute, COMPUTE),
        ];
        given.into_iter().filter(|(is_given, _)| !is_given).map(|(_, what)| what).collect()
    }

    /// The file or the defaults, with the flags applied.
    fn demand(&self, ui: &Ui) -> Result<Demand, ExpectedError> {
        let mut demand = match &self.config {
            None => Demand::default(),
            Some(path) => Demand::from_toml(&read_text("demand", path)?)?,
        };
        demand.gpu = self.gpu.clone().or(demand.gpu);
        demand.memory_gb = self.memory_gb.or(demand.memory_gb);
        demand.target = self.target.unwrap_or(demand.target);
        demand.price = self.price.price().or(demand.price);
        match (&self.from, self.tenant_memory_gb, self.tenant_compute) {
            (Some(path), Some(memory_gb), _) => {
                demand.tenant = kinds_of_record(&read_record(path, ui)?, memory_gb)?;
            }
            (None, Some(memory_gb), Some(compute)) => {
                demand.tenant = vec![Kind::new("tenant", memory_gb, compute)];
            }
            (None, None, None) => {}
            (Some(_), None, _) => return Err(missing("--tenant-memory-gb").into()),
            (None, _, _) => return Err(missing("--tenant-compute").into()),
        }
        if let Some(count) = self.tenants {
            for kind in &mut demand.tenant {
                kind.count = count;
            }
        }
        Ok(demand)
    }

    /// GPU time of every tenant's requests, from the samples of the record.
    fn bill(&self, ui: &Ui) -> Result<Vec<Charge>, ExpectedError> {
        let Some(path) = &self.from else {
            return Ok(Vec::new());
        };
        let unreadable = |problem: String| ExpectedError::unreadable_record(path, problem);
        let record = Record::open(path).map_err(|error| unreadable(error.to_string()))?;
        say_damage(&record, ui);
        let mut used = Vec::new();
        for cell in &record.run().cells {
            for tenant in &cell.tenant_results {
                let rows = record.samples(&cell.cell.id, &tenant.planned.tenant);
                let rows = rows.map_err(|error| unreadable(error.to_string()))?;
                if (rows.len() as u64) < tenant.rows {
                    let (found, all) = (rows.len(), tenant.rows);
                    let name = &tenant.planned.tenant;
                    let cell = &cell.cell.id;
                    return Err(unreadable(format!(
                        "{found} of {all} requests of {name} in cell {cell}; a bill needs all"
                    )));
                }
                let workload = tenant.planned.workload.as_deref().unwrap_or("idle");
                let name = format!("{} ({workload})", tenant.planned.tenant);
                used.push(Used::of_requests(name, rows.iter().map(|row| row.gpu_ns)));
            }
        }
        if used.iter().all(|used| used.gpu_time_s == 0.0) {
            return Err(unreadable("no request has a measured GPU time".to_owned()));
        }
        Ok(chargeback(&used, self.price.price().as_ref()))
    }
}

/// A flag that is needed beside the others although there is a file.
fn missing(flag: &str) -> PredictError {
    PredictError::Missing {
        what: "a value of the tenant".to_owned(),
        remedy: format!("give {flag}"),
    }
}
