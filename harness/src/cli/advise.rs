//! `gpubench advise`: the decision tree, from flags, from questions, or from a record.

use std::io::IsTerminal;
use std::path::PathBuf;

use gpubench_predict::PredictError;
use gpubench_predict::advise::config::{ConfigFile, ConfigOptions, files};
use gpubench_predict::advise::evidence;
use gpubench_predict::advise::second::{Kind, SecondAnswers};
use gpubench_predict::advise::walk::{End, Source};
use gpubench_predict::advise::{Advice, Answers, Node, advise, output, walk};
use gpubench_predict::text::json_text;
use gpubench_record::{ExitCode, RunRecord};

use super::common::exit_codes_help;
use super::predicting::{read_record, set, unknown, write};
use super::ui::Ui;
use crate::error::ExpectedError;

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::OutputFailed,
];

/// Recommends a sharing mechanism by a decision tree
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Isolation between tenants: single (no sharing), hard, shared
    #[arg(long, value_name = "ANSWER")]
    isolation: Option<String>,
    /// The GPU has MIG: yes, no
    #[arg(long, value_name = "ANSWER")]
    mig: Option<String>,
    /// What the tenants run: throughput, latency
    #[arg(long, value_name = "ANSWER")]
    workload: Option<String>,
    /// Memory must be protected from the other tenants: yes, no
    #[arg(long, value_name = "ANSWER")]
    memory_isolation: Option<String>,
    /// Who installs and upgrades the driver: platform, cloud
    #[arg(long, value_name = "ANSWER")]
    driver: Option<String>,
    /// Many small kernels leave SMs idle: yes, no
    #[arg(long, value_name = "ANSWER")]
    sm_bound: Option<String>,
    /// A compute cap that bursts can exceed is enough: yes, no
    #[arg(long, value_name = "ANSWER")]
    soft_compute: Option<String>,
    /// A fault of one tenant may reach the others: yes, no
    #[arg(long, value_name = "ANSWER")]
    reduced_fault_isolation: Option<String>,
    /// Second tree, kind of workload: training, real-time, batch, notebooks
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Second tree, memory is the constraint: yes, no
    #[arg(long, value_name = "ANSWER")]
    memory_bound: Option<String>,
    /// Answer from the figures of this record where it has them
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Also print the configuration for the recommended mechanism
    #[arg(long)]
    config: bool,
    /// Tenants of one GPU, for the configuration
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    tenants: Option<String>,
    /// GPU whose MIG profiles the configuration uses, for example A100-80
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// MIG profiles of the configuration
    #[arg(long, value_name = "PROFILE", value_delimiter = ',')]
    layout: Vec<String>,
    /// Memory of one tenant in MiB, for the configuration of HAMi
    #[arg(long, value_name = "MIB", allow_hyphen_values = true)]
    memory_mib: Option<String>,
    /// Namespace of the tenants, for the configuration
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Image of the example pod
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Output format: text, json, mermaid
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Advises and prints.
///
/// # Errors
/// When an answer is wrong or missing, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    if !["text", "table", "json", "mermaid"].contains(&args.format.as_str()) {
        return Err(unknown("format", &args.format, "text, json, mermaid").into());
    }
    let second = args.second()?;
    let record = args.from.as_deref().map(read_record).transpose()?;
    let answers = complete(args.answers()?, record.as_ref(), ui)?;
    let advice = advise(&answers, second, record.as_ref())?;
    let files = if args.config {
        files(advice.leaf, &args.options(record.as_ref())?)?
    } else {
        Vec::new()
    };
    let text = match args.format.as_str() {
        "json" => json(&advice, &files)?,
        "mermaid" => output::mermaid(&advice),
        _ => output::text(&advice) + &config_text(&files),
    };
    write(args.output.as_deref(), &text, ui)?;
    Ok(ExitCode::Done)
}

/// Asks for the missing answers on a terminal; without one a missing answer is an error.
fn complete(
    mut answers: Answers,
    record: Option<&RunRecord>,
    ui: &Ui,
) -> Result<Answers, ExpectedError> {
    if let Some(record) = record {
        evidence::answer(&mut answers, record)?;
    }
    if !std::io::stdin().is_terminal() {
        return Ok(answers);
    }
    while let End::Open(node) = walk(&answers).end {
        let Some(value) = ask(node, ui)? else { break };
        if let Err(error) = answers.answer(node.flag, &value, Source::User) {
            ui.note(&error.to_string());
        }
    }
    Ok(answers)
}

/// Asks one question; `None` at the end of input.
fn ask(node: &Node, ui: &Ui) -> Result<Option<String>, ExpectedError> {
    ui.note(&format!("{}. {}", node.number, node.question));
    for choice in node.choices {
        ui.note(&format!("   {}: {}", choice.value, choice.meaning));
    }
    let mut line = String::new();
    let read =
        std::io::stdin()
            .read_line(&mut line)
            .map_err(|source| ExpectedError::Unreadable {
                what: "answer",
                path: PathBuf::from("(standard input)"),
                source,
            })?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

fn config_text(files: &[ConfigFile]) -> String {
    let part =
        |file: &ConfigFile| format!("\n--- {}\n{}\n\n{}", file.name, file.purpose, file.text);
    files.iter().map(part).collect()
}

fn json(advice: &Advice, files: &[ConfigFile]) -> Result<String, ExpectedError> {
    if files.is_empty() {
        return Ok(output::json(advice)?);
    }
    Ok(json_text(
        &serde_json::json!({ "advice": advice, "files": files }),
    )?)
}

impl Args {
    fn answers(&self) -> Result<Answers, PredictError> {
        let given = [
            ("isolation", &self.isolation),
            ("mig", &self.mig),
            ("workload", &self.workload),
            ("memory-isolation", &self.memory_isolation),
            ("driver", &self.driver),
            ("sm-bound", &self.sm_bound),
            ("soft-compute", &self.soft_compute),
            ("reduced-fault-isolation", &self.reduced_fault_isolation),
        ];
        let mut answers = Answers::default();
        for (flag, value) in given {
            if let Some(value) = value {
                answers.answer(flag, value, Source::User)?;
            }
        }
        Ok(answers)
    }

    fn second(&self) -> Result<SecondAnswers, PredictError> {
        let is_memory_bound = match self.memory_bound.as_deref() {
            None => None,
            Some("yes") => Some(true),
            Some("no") => Some(false),
            Some(other) => {
                return Err(PredictError::value("memory-bound", other, "one of yes, no"));
            }
        };
        Ok(SecondAnswers {
            kind: self.kind.as_deref().map(Kind::parse).transpose()?,
            is_memory_bound,
        })
    }

    fn options(&self, record: Option<&RunRecord>) -> Result<ConfigOptions, PredictError> {
        let mut options = ConfigOptions::default();
        set(
            &mut options.tenants,
            "tenants",
            &self.tenants,
            "a whole number",
        )?;
        set(
            &mut options.memory_mib,
            "memory_mib",
            &self.memory_mib,
            "a whole number",
        )?;
        options.gpu = self
            .gpu
            .clone()
            .or_else(|| record.map(|run| run.device.name.clone()));
        options.layout.clone_from(&self.layout);
        if let Some(namespace) = &self.namespace {
            options.namespace.clone_from(namespace);
        }
        if let Some(image) = &self.image {
            options.image.clone_from(image);
        }
        Ok(options)
    }
}
