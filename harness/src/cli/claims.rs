//! `gpubench claims`: the claims of the literature, and what records say of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use gpubench_judge::claims::page::{self, Detail, Judged};
use gpubench_plan::ledger;
use gpubench_record::claim::Claim;
use gpubench_record::{Axis, ExitCode, SubAxis, Verdict, excerpt};
use gpubench_show::{Labels, Page};
use serde_json::{Value, json};

use super::common::{OutputFlag, exit_codes_help, versioned_json};
use super::comparing::{LISTING, of_records, say_warnings};
use super::names::{MechanismNames, Names, axes};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::open_comparable;

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
    #[arg(long, value_name = "NAME", conflicts_with = "recipes", value_parser = MechanismNames)]
    mechanism: Vec<Names>,
    /// Only claims about these axes (repeat, or separate by commas)
    ///
    /// Of a sub-axis such as dram: the claims about it, and those about its whole axis.
    #[arg(long, value_name = "AXIS", value_delimiter = ',', conflicts_with = "recipes",
        ignore_case = true, value_parser = axes())]
    axis: Vec<String>,
    /// Only the claims with these ids, such as TS-5 (repeat, or separate by commas)
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with = "recipes")]
    id: Vec<String>,
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
    args.check_ids(&ledger.claims)?;
    let about: BTreeMap<String, Vec<SubAxis>> = ledger.claims.iter().map(resources).collect();
    let about = |id: &str| about.get(id).map_or(&[][..], Vec::as_slice);
    ledger
        .claims
        .retain(|claim| args.has(&claim.id, &claim.mechanisms, Some(claim.axis), about(&claim.id)));
    let opened = args.records.iter().map(|dir| open_comparable(dir));
    let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
    let all: Vec<usize> = opened.iter().map(|one| one.run.claims.len()).collect();
    for one in &mut opened {
        one.run.claims.retain(|row| {
            let is_named = |name: &String| name == row.verdict.as_str();
            args.has(&row.id, &row.mechanisms, row.axis, about(&row.id))
                && (args.verdict.is_empty() || args.verdict.iter().any(is_named))
        });
    }
    let judged = opened.iter().zip(all).map(|(one, claims)| Judged {
        name: one.dir.display().to_string(),
        run: &one.run,
        claims,
    });
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

/// The resources that a claim is about; none for the whole axis.
fn resources(claim: &Claim) -> (String, Vec<SubAxis>) {
    (claim.id.clone(), claim.select.sub_axes.clone())
}

impl Args {
    /// Refuses ids that no claim has, and names `--id` where a record is the id of a claim.
    fn check_ids(&self, claims: &[Claim]) -> Result<(), ExpectedError> {
        let is_known = |id: &str| claims.iter().any(|claim| claim.id.eq_ignore_ascii_case(id));
        for dir in self.records.iter().filter(|dir| !dir.exists()) {
            if let Some(id) = dir.to_str().filter(|id| is_known(id)) {
                let problem = format!("no such folder: {id}, which is the id of a claim");
                return Err(ExpectedError::usage(problem, Some("name it by --id")));
            }
        }
        match self.id.iter().find(|id| !is_known(id)) {
            Some(id) => Err(ExpectedError::usage(
                format!("--id: no claim '{}' (accepted: an id such as TS-5)", excerpt(id)),
                Some("gpubench claims lists the claims with their ids"),
            )),
            None => Ok(()),
        }
    }

    /// Whether a claim with this id, about these mechanisms, this axis and these of its resources
    /// is asked for.
    fn has(
        &self,
        id: &str,
        mechanisms: &[String],
        axis: Option<Axis>,
        resources: &[SubAxis],
    ) -> bool {
        let named = Names::without_options(&self.mechanism);
        let is_axis = |name: &String| {
            let (name, resource) = name.split_once('/').unwrap_or((name, ""));
            axis.is_some_and(|axis| axis.as_str() == name)
                && (resource.is_empty()
                    || resources.is_empty()
                    || resources.iter().any(|one| one.as_str() == resource))
        };
        (named.is_empty() || named.iter().any(|name| mechanisms.contains(name)))
            && (self.axis.is_empty() || self.axis.iter().any(is_axis))
            && (self.id.is_empty() || self.id.iter().any(|one| one.eq_ignore_ascii_case(id)))
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
