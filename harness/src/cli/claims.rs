//! `gpubench claims`: the claims of the literature, and what records say of them.

use std::path::PathBuf;

use clap::ValueEnum;
use gpubench_judge::claims::page::{self, Judged};
use gpubench_plan::ledger;
use gpubench_record::ExitCode;
use gpubench_show::Page;
use serde_json::{Value, json};

use super::common::{OutputFlag, exit_codes_help, pretty_json};
use super::comparing::{LISTING, of_records, say_warnings};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::{Repair, open_scored};

pub const EXIT_CODES: &[ExitCode] = LISTING;

/// Lists claims of the literature, and says which of them records support or refute
///
/// A claim has its sources, or says that none was found, and what they were published for. A
/// verdict follows from the ends of an interval: supported, refuted, inconclusive (too wide, or not
/// trusted), untested (not in the record, or measured with other tenants; with what tests it).
/// `matrix --profile claims` with --probes, --faults and --escape measures what most claims need.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folders of records; without one the claims are listed
    #[arg(value_name = "RECORD", conflicts_with = "recipes")]
    records: Vec<PathBuf>,
    /// List recipes that do not work, with their working form, and phrases that mislead
    #[arg(long)]
    recipes: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: ClaimsFormat,
    #[command(flatten)]
    output: OutputFlag,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClaimsFormat {
    /// Text for people; may change between versions
    #[value(alias = "table")]
    Text,
    /// Markdown tables
    Md,
    /// Data for programs
    Json,
    /// Comma-separated values
    Csv,
}

/// Prints the ledger, its recipes, or the verdicts of records.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let ledger = ledger()?;
    let opened = args.records.iter().map(|dir| open_scored(dir, Repair::No));
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    let judged =
        opened.iter().map(|one| Judged { name: one.dir.display().to_string(), run: &one.run });
    let judged: Vec<Judged<'_>> = judged.collect();
    let is_csv = args.format == ClaimsFormat::Csv;
    let (page, json) = if args.recipes {
        let json = json!({ "recipes": ledger.recipes, "misleading": ledger.misleading });
        let page = if is_csv { page::recipe_lines } else { page::recipes };
        (page(&ledger), json)
    } else if judged.is_empty() {
        let mut page = page::ledger(&ledger);
        if !is_csv {
            page.push(page::words(&ledger));
        }
        (page, json!(ledger.claims))
    } else {
        let page = if is_csv { page::verdict_lines } else { page::verdicts };
        (page(&judged), page::verdicts_json(&judged))
    };
    args.output.write(&args.text(&page, &json, ui)?, ui)?;
    let doubtful = opened.iter().map(|one| say_warnings(one, ui));
    let doubtful: Vec<bool> = doubtful.collect();
    Ok(of_records(ExitCode::Done, doubtful.contains(&true)))
}

impl Args {
    fn text(&self, page: &Page, json: &Value, ui: &Ui) -> Result<String, ExpectedError> {
        Ok(match self.format {
            ClaimsFormat::Json => pretty_json(json)?,
            ClaimsFormat::Text => page.text(ui.look_of(self.output.is_file())),
            ClaimsFormat::Md => page.markdown(),
            ClaimsFormat::Csv => page.csv(),
        })
    }
}
