//! `gpubench choose`: which mechanism meets what people need, by records.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use clap::ValueEnum;
use gpubench_judge::choose::need::{Need, What, bytes};
use gpubench_judge::choose::page::{Answer, SecondOpinion};
use gpubench_judge::choose::{
    Candidate, Finding, Verdict, candidates, cost, device_flag, front, unknown_parts,
};
use gpubench_predict::advise::config::{ConfigFile, ConfigOptions, TENANTS, files};
use gpubench_predict::advise::tree::End;
use gpubench_predict::advise::{Answers, Leaf, evidence, walk};
use gpubench_predict::mig;
use gpubench_record::{Axis, ExitCode, RunRecord};
use serde::Deserialize;
use serde_json::json;

use super::advise::config_text;
use super::common::{OutputFlag, exit_codes_help, pretty_json, whole};
use super::comparing::{LISTING, of_records, say_warnings};
use super::names::{self, Offering};
use super::predicting::{answer, read_text};
use super::simulate::set;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::open_comparable;

pub const EXIT_CODES: &[ExitCode] = LISTING;

/// Names the mechanisms that meet your needs, from what records measured
///
/// Each mechanism meets a need, fails it (with the figure and its interval), or it is unknown (with
/// the command that would measure it). What was not measured is never met. Without a need: the
/// mechanisms that no other one beats in isolation and cost. On a terminal the needs are asked.
///
/// A need names an axis or one of its parts: dram>=L2, compute>=0.9 (retention), jitter<=0.5
/// (native medians, of single requests), tail<=0.5 (of latencies at the offered load),
/// fault/mmu>=L2, guarantee/dram>=0.4, efficiency>=0.95, throughput>=1 (devices),
/// memory-cap, processes, no-restart, no-root, no-drain, no-reset, no-reboot. Names as on a screen
/// (DRAM, faults, l2) are accepted.
///
/// Where nothing meets, the answer says so and the exit code is 0: the answer is complete. With
/// --config it is 2 there, after the answer, because no mechanism is configured. With --format json
/// an empty list `answer` says the same. --format md begins with one paragraph for a design
/// document.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folders of records of one GPU and driver; what one lacks another may have
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// What a mechanism must give (repeat), such as 'dram>=L2' or 'jitter<=0.5'
    #[arg(
        long,
        value_name = "NEED",
        value_parser = Offering(need, names::needs),
        hide_possible_values = true,
        help_heading = "Needs"
    )]
    need: Vec<Need>,
    /// File with a table `[needs]`: need = ["dram>=L2"], tenants, memory, accept-unknown
    #[arg(long, value_name = "FILE", help_heading = "Needs")]
    needs: Option<PathBuf>,
    /// Tenants on one GPU, at least 2 by default: more than were measured are unknown
    #[arg(long, value_name = "N", help_heading = "Needs", value_parser = whole::<u32>(1, 999_999))]
    tenants: Option<u32>,
    /// Memory of each tenant, such as 10GiB
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Needs")]
    memory: Option<String>,
    /// Also name mechanisms that fail nothing and have unknown needs, and say which
    #[arg(long, help_heading = "Needs")]
    accept_unknown: bool,
    /// Also print the configuration files of the first mechanism, with its figures as comments
    #[arg(long, help_heading = "Configuration")]
    config: bool,
    /// Kubernetes namespace of the tenants [default: gpu-tenants]
    #[arg(long, value_name = "NAME", requires = "config", help_heading = "Configuration")]
    namespace: Option<String>,
    /// Image of the example pod
    #[arg(long, value_name = "IMAGE", requires = "config", help_heading = "Configuration")]
    image: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    format: Format,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputFlag,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for people; may change between versions
    #[value(alias = "table")]
    Text,
    /// Markdown tables
    Md,
    /// Data for programs
    Json,
}

fn need(text: &str) -> Result<Need, String> {
    Need::parse(text).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<String, String> {
    let found = bytes(text).map(|_| text.to_owned());
    found.ok_or_else(|| "accepted: a size with its unit, such as 10GiB or 512MiB".to_owned())
}

/// A file with needs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NeedsFile {
    needs: Needs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Needs {
    #[serde(default)]
    need: Vec<String>,
    tenants: Option<u32>,
    memory: Option<String>,
    #[serde(default)]
    accept_unknown: bool,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let (needs, accept_unknown) = args.needs(ui)?;
    let opened = args.records.iter().map(|dir| open_comparable(dir));
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    let records: Vec<&RunRecord> = opened.iter().map(|one| &one.run).collect();
    of_one_device(&records)?;
    if let Some(problem) = unknown_parts(&records, &needs) {
        return Err(ExpectedError::usage(problem, None));
    }
    let mut found = candidates(&records, &needs);
    for one in opened.iter().filter(|one| !one.run.operator.is_empty()) {
        match one.record.telemetry() {
            Ok(rows) => cost::add_energy(&mut found, &one.run, &rows),
            Err(error) => ui.note(&format!("warning: no energy of {}: {error}", one.dir.display())),
        }
    }
    name_layouts(&mut found, &records, &needs);
    let second =
        (!needs.is_empty()).then(|| second_opinion(&records, &needs, &found)).transpose()?;
    let answer = Answer {
        names: opened.iter().map(|one| one.dir.display().to_string()).collect(),
        front: front(&found),
        records: &records,
        needs: &needs,
        candidates: &found,
        accept_unknown,
        second,
    };
    // The answer is printed also where it has no configuration.
    let (files, refused) = match args.config.then(|| args.files(&answer)) {
        Some(Ok(files)) => (files, None),
        Some(Err(error)) => (Vec::new(), Some(error)),
        None => (Vec::new(), None),
    };
    let text = match args.format {
        Format::Json if args.config => {
            let mut document = answer.json();
            document["files"] = json!(files);
            pretty_json(&document)?
        }
        Format::Json => pretty_json(&answer.json())?,
        Format::Md => answer.markdown() + &fenced(&files),
        Format::Text => {
            let look = args.output.look(ui);
            answer.page().text(look) + &config_text(&files, look)
        }
    };
    args.output.write(&text, ui)?;
    if let Some(error) = refused {
        return Err(error);
    }
    let doubtful: Vec<bool> = opened.iter().map(|one| say_warnings(one, ui)).collect();
    Ok(of_records(ExitCode::Done, doubtful.contains(&true)))
}

/// Memory that a context takes where no record has it, with room to spare.
const CONTEXT_BYTES: u64 = 1 << 30;

/// Names a MIG layout for the needed tenants where that of the record has fewer instances.
fn name_layouts(found: &mut [Candidate], records: &[&RunRecord], needs: &[Need]) {
    let Some(run) = records.first() else { return };
    let Ok(table) = mig::table(&run.device.name) else { return };
    let memory = needs.iter().find_map(|need| match need.what {
        What::Memory(bytes) => Some(bytes),
        _ => None,
    });
    let context = found.iter().filter(|one| one.name == "mig");
    let context = context.filter_map(|one| one.cost.overhead_bytes).max().unwrap_or(CONTEXT_BYTES);
    let plain: Vec<&mig::Profile> = table.profiles.iter().filter(|one| !one.is_variant()).collect();
    let fails = |one: &&mut Finding| one.verdict == Verdict::Fails;
    let of_mig = found.iter_mut().filter(|one| one.name == "mig");
    for one in of_mig.flat_map(|one| one.findings.iter_mut().filter(fails)) {
        let count = one.need.strip_prefix("tenants>=").and_then(|count| count.parse().ok());
        let Some((count, figure)) = count.zip(one.figure.as_mut()) else { continue };
        let fits = |one: &&&mig::Profile| {
            one.max as usize >= count && mig::place(table, &vec![**one; count]).is_some()
        };
        let largest = plain.iter().filter(fits).max_by_key(|one| (one.slices, one.memory_slots));
        *figure += &match largest {
            Some(one) => {
                let layout = format!("{count} x {}", one.name);
                let bytes = ((one.memory_gb() * 1e9) as u64).saturating_sub(context);
                if memory.is_some_and(|wanted| wanted > bytes) {
                    let mib = bytes >> 20;
                    format!("; {layout} fit this GPU, but leave each tenant {mib} MiB")
                } else {
                    let command = command_of_layout(run, table, one, count, bytes);
                    format!("; {layout} would fit this GPU, by {command}")
                }
            }
            None => {
                let most = plain.iter().map(|one| one.max).max().unwrap_or(0);
                format!("; this GPU holds {most} instances at most")
            }
        };
    }
}

/// The command that measures so many instances, with a share of the device that each can hold: of
/// its SMs, and of its memory beside the context.
fn command_of_layout(
    run: &RunRecord,
    table: &mig::Table,
    one: &mig::Profile,
    count: usize,
    bytes: u64,
) -> String {
    let by_slices = f64::from(one.slices) / f64::from(table.slices + 1);
    let device_bytes = (run.device.memory_mib << 20).max(1);
    let parts = [1.0 / count as f64, table.speed(one).unwrap_or(by_slices)];
    let share = parts.into_iter().fold(bytes as f64 / device_bytes as f64, f64::min);
    let share = (100.0 * share).floor() / 100.0;
    format!(
        "printf 'version = 1\\ntenants = {count}\\nshare = {share}\\n' > tenants.toml && gpubench \
         matrix{} --mechanism 'mig[{count}x{}]' --profile tenants.toml --allow-reconfigure",
        device_flag(run),
        one.name
    )
}

/// Figures of another GPU or driver say nothing of this one.
fn of_one_device(records: &[&RunRecord]) -> Result<(), ExpectedError> {
    let name = |run: &&RunRecord| {
        let machine = run.device.facts.get("machine_hash").cloned().unwrap_or_default();
        let device = &run.device;
        format!("{} {} {} {machine}", device.name, device.kind.as_str(), device.driver)
    };
    let all: BTreeSet<String> = records.iter().map(name).collect();
    if all.len() < 2 {
        return Ok(());
    }
    let all: Vec<&str> = all.iter().map(|one| one.trim()).collect();
    let problem = format!("the records are of different devices: {}", all.join("; "));
    Err(ExpectedError::usage(problem, Some("name records of one GPU and driver")))
}

fn fenced(files: &[ConfigFile]) -> String {
    let one = |file: &ConfigFile| {
        format!("\n## {}\n\n{}\n\n```\n{}```\n", file.name, file.purpose, file.text)
    };
    files.iter().map(one).collect()
}

impl Args {
    /// The needs of flags, of the file, or of the dialog, and whether unknown ones are accepted.
    fn needs(&self, ui: &Ui) -> Result<(Vec<Need>, bool), ExpectedError> {
        let wrong = |problem: String| ExpectedError::usage(problem, None);
        let file = match &self.needs {
            None => Needs::default(),
            Some(path) => {
                let text = read_text("needs", path)?;
                let file: NeedsFile = toml::from_str(&text)
                    .map_err(|error| wrong(format!("{}: {}", path.display(), error.message())))?;
                file.needs
            }
        };
        let mut texts = file.need;
        let tenants = self.tenants.or(file.tenants);
        texts.extend(tenants.map(|count| format!("tenants>={count}")));
        let memory = self.memory.as_ref().or(file.memory.as_ref());
        texts.extend(memory.map(|size| format!("memory>={size}")));
        let of_file = texts.iter().map(|text| Need::parse(text));
        let of_file =
            of_file.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
        let mut needs = [self.need.clone(), of_file].concat();
        let is_dialog = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if needs.is_empty() && self.needs.is_none() && is_dialog && self.format == Format::Text {
            needs = ask(&mut std::io::stdin().lock(), ui)?;
        }
        Ok((needs, self.accept_unknown || file.accept_unknown))
    }

    /// The configuration of the first mechanism.
    fn files(&self, answer: &Answer<'_>) -> Result<Vec<ConfigFile>, ExpectedError> {
        let named = answer.named();
        let Some(first) = named.first() else {
            let problem = "no mechanism meets the needs, so none is configured";
            return Err(ExpectedError::usage(problem, None));
        };
        let Some(leaf) = leaf(first) else {
            let problem =
                format!("{} is set up by the program itself, not by a file", first.variant);
            return Err(ExpectedError::usage(problem, None));
        };
        let measured = answer.records.first().map_or(2, |run| run.plan.tenants);
        let of_need = |need: &Need| match need.what {
            What::Tenants(count) => Some(count),
            _ => None,
        };
        let tenants = answer.needs.iter().find_map(of_need).unwrap_or(measured);
        let mut options = ConfigOptions {
            tenants: tenants.clamp(*TENANTS.start(), *TENANTS.end()),
            gpu: answer.records.first().map(|run| run.device.name.clone()),
            layout: instances(first),
            percent: percent(&first.variant),
            ..ConfigOptions::default()
        };
        set(&mut options.namespace, self.namespace.clone());
        set(&mut options.image, self.image.clone());
        let mut files = files(leaf, &options)?;
        let by =
            if gpubench_judge::choose::is_of_model(answer.records) { " by the model" } else { "" };
        let figures = first.findings.iter().map(|found| {
            let figure = found.figure.as_deref().or(found.reason.as_deref()).unwrap_or_default();
            format!("# {} {}{by}: {figure}\n", found.need, found.verdict.as_str())
        });
        let comment: String =
            std::iter::once(format!("# {}\n", first.variant)).chain(figures).collect();
        for file in &mut files {
            let head = if file.text.starts_with("#!") { "#!/bin/sh\nset -eu\n" } else { "" };
            let rest = file.text.strip_prefix(head).unwrap_or(&file.text).to_owned();
            file.text = format!("{head}{comment}{rest}");
        }
        Ok(files)
    }
}

/// The leaf of the tree with the configuration of a mechanism.
fn leaf(one: &Candidate) -> Option<Leaf> {
    match one.name.as_str() {
        "mig" => Some(Leaf::Mig),
        "mps" | "mps-quota" => Some(Leaf::Mps),
        "hami" => Some(Leaf::Hami),
        "time-slicing" => Some(Leaf::TimeSlicingOperator),
        _ => None,
    }
}

/// The MIG instances that the run made.
fn instances(one: &Candidate) -> Vec<String> {
    let changes = one.cost.changes.iter().filter_map(|text| text.strip_prefix("MIG instance "));
    changes.filter_map(|rest| Some(rest.split(' ').next()?.to_owned())).collect()
}

fn percent(variant: &str) -> Option<u32> {
    let rest = variant.split("pct=").nth(1).or_else(|| variant.split("sm=").nth(1))?;
    rest.trim_end_matches(']').split(',').next()?.parse().ok()
}

// The questions on a terminal.

/// Questions, each with the need that an answer makes; `yes` stands for a need without a value.
const QUESTIONS: [(&str, &str); 8] = [
    ("How well must compute be isolated? (L1, L2, L3)", "compute>="),
    ("How well must DRAM bandwidth be isolated? (L1, L2, L3)", "dram>="),
    ("What may a neighbour add to a request, in native medians? (0.1, 0.5)", "jitter<="),
    ("Must a limit of memory hold? (yes)", "memory-cap"),
    ("How well must faults of neighbours be contained? (L1, L2, L3)", "fault>="),
    ("Are tenants programs of different owners, in processes of their own? (yes)", "processes"),
    ("How many tenants share a GPU? (4)", "tenants>="),
    ("How much memory needs each? (10GiB)", "memory>="),
];

/// Asks for needs until the input ends; an empty answer is no need.
fn ask(input: &mut impl BufRead, ui: &Ui) -> Result<Vec<Need>, ExpectedError> {
    let mut needs = Vec::new();
    for (question, need) in QUESTIONS {
        loop {
            ui.note(&format!("{question} [no need]"));
            let Some(given) = answer(input)? else {
                return Ok(needs);
            };
            let given = given.as_str();
            if given.is_empty() || given == "no" {
                break;
            }
            let text = match (need.ends_with('='), given) {
                (true, value) => format!("{need}{value}"),
                (false, "yes") => need.to_owned(),
                (false, other) => other.to_owned(),
            };
            match Need::parse(&text) {
                Ok(need) => {
                    needs.push(need);
                    break;
                }
                Err(error) => ui.note(&format!("   {error}")),
            }
        }
    }
    Ok(needs)
}

// The published tree as a second opinion.

/// What the tree answers to these needs, and where it names or rules out what records contradict.
fn second_opinion(
    records: &[&RunRecord],
    needs: &[Need],
    found: &[Candidate],
) -> Result<SecondOpinion, ExpectedError> {
    let has = |axis: Axis| needs.iter().any(|need| need.is_about(axis));
    let level =
        |least: u8| move |need: &Need| matches!(need.what, What::Level(_, level) if level >= least);
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    let is_hard = needs.iter().any(level(3))
        || needs.iter().any(|need| need.is_about(Axis::Fault) && level(2)(need));
    let hard_compute = needs.iter().any(|need| need.is_about(Axis::Compute) && level(2)(need));
    let mut answers = Answers::default();
    for (flag, value) in [
        ("isolation", if is_hard { "hard" } else { "shared" }),
        ("workload", if has(Axis::Jitter) { "latency" } else { "throughput" }),
        ("memory-isolation", yes(has(Axis::Memory))),
        ("driver", "platform"),
        ("soft-compute", yes(!hard_compute)),
        ("reduced-fault-isolation", yes(!has(Axis::Fault))),
    ] {
        answers.answer(flag, value)?;
    }
    for run in records {
        evidence::answer(&mut answers, run)?;
    }
    let walked = walk(&answers);
    let path: Vec<String> = walked
        .path
        .iter()
        .map(|step| format!("{} {}", step.node.flag, step.choice.value))
        .collect();
    let leaf = match walked.end {
        End::Leaf(leaf) => leaf,
        End::Open(node) => {
            let says =
                format!("it asks what no record says: {} ({})", node.question, path.join(", "));
            return Ok(SecondOpinion { says, contradictions: Vec::new() });
        }
    };
    let says = format!("{} ({})", leaf.name(), path.join(", "));
    Ok(SecondOpinion { says, contradictions: contradictions(leaf, found) })
}

fn contradictions(leaf: Leaf, found: &[Candidate]) -> Vec<String> {
    let meets = || found.iter().filter(|one| one.verdict == Verdict::Meets);
    let Some(name) = leaf.mechanism() else {
        // The tree shares no GPU.
        return meets().map(|one| format!("{} meets every need", one.label)).collect();
    };
    let own: Vec<&Candidate> = found.iter().filter(|one| one.name == name).collect();
    let fails = own.iter().flat_map(|one| {
        let failed = one.findings.iter().filter(|found| found.verdict == Verdict::Fails);
        failed.map(|found| {
            let figure = found.figure.as_deref().unwrap_or_default();
            format!("{} fails {}: {figure}", one.label, found.need)
        })
    });
    let mut texts: Vec<String> = fails.collect();
    if !texts.is_empty() {
        let others: Vec<&str> = meets().map(|one| one.label.as_str()).collect();
        if !others.is_empty() {
            texts.push(format!("it does not name what meets every need: {}", others.join(", ")));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::super::ui::ColorWhen;
    use super::{Ui, ask};

    #[test]
    fn a_dialog_repeats_a_question_until_its_answer_is_a_need() {
        let mut input = "L9\nL2\n\n0.5\nyes\n".as_bytes();
        let needs = ask(&mut input, &Ui::from_environment(ColorWhen::Auto, false));
        let texts = needs.map(|needs| needs.into_iter().map(|need| need.text).collect::<Vec<_>>());
        let wanted = ["compute>=L2", "jitter<=0.5", "memory-cap"];
        assert!(texts.is_ok_and(|texts| texts == wanted));
    }
}
