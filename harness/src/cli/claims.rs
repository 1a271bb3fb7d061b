//! `gpubench claims`: the claims of the literature, and what records say of them.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use gpubench_catalogue::mechanism;
use gpubench_judge::claims::page::{self, Detail, Judged};
use gpubench_plan::ledger;
use gpubench_record::{Axis, ExitCode, Verdict};
use gpubench_show::{Labels, Page};
use serde_json::{Value, json};

use super::common::{OutputFlag, exit_codes_help, versioned_json};
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
    /// Only claims with these verdicts (repeat, or separate by commas)
    #[arg(long, value_name = "VERDICT", value_delimiter = ',', requires = "records",
        value_parser = PossibleValuesParser::new(Verdict::ALL.map(Verdict::as_str)))]
    verdict: Vec<String>,
    /// Only claims about these mechanisms (repeat, or separate by commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "recipes",
        value_parser = PossibleValuesParser::new(mechanism::names().iter().copied()))]
    mechanism: Vec<String>,
    /// Only claims about these axes (repeat, or separate by commas)
    #[arg(long, value_name = "AXIS", value_delimiter = ',', conflicts_with = "recipes",
        value_parser = PossibleValuesParser::new(Axis::ALL.map(Axis::as_str)))]
    axis: Vec<String>,
    /// Also print test, source and what each claim was published for
    #[arg(long, conflicts_with = "recipes")]
    full: bool,
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
    let mut ledger = ledger()?;
    ledger.claims.retain(|claim| args.has(&claim.mechanisms, Some(claim.axis)));
    let opened = args.records.iter().map(|dir| open_scored(dir, Repair::No));
    let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
    for one in &mut opened {
        one.run.claims.retain(|row| {
            let is_named = |name: &String| name == row.verdict.as_str();
            args.has(&row.mechanisms, row.axis)
                && (args.verdict.is_empty() || args.verdict.iter().any(is_named))
        });
    }
    let judged =
        opened.iter().map(|one| Judged { name: one.dir.display().to_string(), run: &one.run });
    let judged: Vec<Judged<'_>> = judged.collect();
    let is_csv = args.format == ClaimsFormat::Csv;
    let (page, json) = if args.recipes {
        let json = json!({ "recipes": ledger.recipes, "misleading": ledger.misleading });
        let page = if is_csv { page::recipe_lines } else { page::recipes };
        (page(&ledger), json)
    } else if judged.is_empty() {
        let is_full = args.full || is_csv;
        let mut page = if is_full { page::ledger } else { page::statements }(&ledger);
        if args.full && !is_csv {
            page.push(page::words(&ledger));
        }
        (page, json!(ledger.claims))
    } else {
        let detail = if args.full { Detail::Full } else { Detail::Summary };
        let page = match is_csv {
            true => page::verdict_lines(&judged),
            false => page::verdicts(&judged, detail),
        };
        (page, page::verdicts_json(&judged))
    };
    let runs: Vec<_> = judged.iter().map(|one| one.run).collect();
    let page = if is_csv { page } else { Labels::of_records(&runs).on(page) };
    let text = args.text(&page, &json, ui)?;
    let is_long = args.full && args.format == ClaimsFormat::Text;
    args.output.write_paged(text.as_bytes(), is_long, ui)?;
    let doubtful = opened.iter().map(|one| say_warnings(one, ui));
    let doubtful: Vec<bool> = doubtful.collect();
    Ok(of_records(ExitCode::Done, doubtful.contains(&true)))
}

impl Args {
    /// Whether a claim about these mechanisms and this axis is asked for.
    fn has(&self, mechanisms: &[String], axis: Option<Axis>) -> bool {
        let is_about = |name: &String| mechanisms.contains(name);
        (self.mechanism.is_empty() || self.mechanism.iter().any(is_about))
            && (self.axis.is_empty()
                || self.axis.iter().any(|name| axis.is_some_and(|axis| name == axis.as_str())))
    }

    fn text(&self, page: &Page, json: &Value, ui: &Ui) -> Result<String, ExpectedError> {
        Ok(match self.format {
            ClaimsFormat::Json => versioned_json("claims", json)?,
            ClaimsFormat::Text => page.text(ui.look_of(self.output.is_file())),
            ClaimsFormat::Md => page.markdown(),
            ClaimsFormat::Csv => page.csv(),
        })
    }
}
