//! `gpubench advise`: the decision tree, from flags or from a dialog.

use std::io::{BufRead, IsTerminal};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, FromArgMatches, ValueEnum};
use gpubench_predict::advise::advice::{Kind, SecondAnswers};
use gpubench_predict::advise::config::{ConfigFile, ConfigOptions, TENANTS, files};
use gpubench_predict::advise::tree::End;
use gpubench_predict::advise::{Advice, Answers, NODES, advise, output, walk};
use gpubench_record::ExitCode;
use gpubench_show::{Look, Page};

use super::common::{OutputFlag, exit_codes_help, versioned_json, whole};
use super::predicting::{answer, one_of};
use super::simulate::set;
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Recommends a sharing mechanism by a published decision tree, without a measurement
///
/// Answer its questions by flags. On a terminal the remaining questions are asked. From a record
/// `gpubench choose` answers, with this tree beside it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES), allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten, next_help_heading = "Questions")]
    questions: QuestionFlags,
    #[command(flatten)]
    second: SecondArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    format: Format,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputFlag,
}

/// Answers for the second tree.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Second tree (compared with the first)")]
struct SecondArgs {
    /// Kind of workload [default: derived from --workload]
    #[arg(long, value_name = "KIND", value_parser = one_of(&Kind::NAMES))]
    kind: Option<Kind>,
    /// Is memory the constraint?
    #[arg(long, value_name = "ANSWER", value_parser = one_of(&[("yes", true), ("no", false)]))]
    memory_bound: Option<bool>,
}

/// What the configuration is made for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Configuration of the recommended mechanism")]
struct ConfigArgs {
    /// Also print the configuration files
    #[arg(long)]
    config: bool,
    /// Tenants of one GPU, 2 to 48 [default: 4]
    #[arg(
        long,
        value_name = "N",
        requires = "config",
        value_parser = whole::<u32>((*TENANTS.start()).into(), (*TENANTS.end()).into()),
    )]
    tenants: Option<u32>,
    /// MIG: GPU that defines the profiles, for example A100-80
    #[arg(long, value_name = "GPU", requires = "config")]
    gpu: Option<String>,
    /// MIG: profiles of the instances (separate by commas) [default: equal ones]
    #[arg(long, value_name = "PROFILE", value_delimiter = ',', requires = "config")]
    layout: Vec<String>,
    /// HAMi: memory of one tenant in MiB, at least 1 [default: 8000]
    #[arg(long, value_name = "MIB", requires = "config", value_parser = whole::<u32>(1, u64::MAX))]
    memory_mib: Option<u32>,
    /// Kubernetes namespace of the tenants [default: gpu-tenants]
    #[arg(long, value_name = "NAME", requires = "config")]
    namespace: Option<String>,
    /// Image of the example pod
    #[arg(long, value_name = "IMAGE", requires = "config")]
    image: Option<String>,
}

impl ConfigArgs {
    fn options(&self) -> ConfigOptions {
        let mut options = ConfigOptions::default();
        set(&mut options.tenants, self.tenants);
        set(&mut options.memory_mib, self.memory_mib);
        set(&mut options.namespace, self.namespace.clone());
        set(&mut options.image, self.image.clone());
        options.gpu = self.gpu.clone();
        options.layout.clone_from(&self.layout);
        options
    }
}

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    #[value(alias = "table")]
    Text,
    Json,
    Mermaid,
}

#[derive(Debug)]
struct QuestionFlags(Answers);

impl clap::Args for QuestionFlags {
    fn augment_args(command: Command) -> Command {
        command.args(NODES.iter().map(|node| {
            let values = node.choices.iter();
            let values = values.map(|choice| PossibleValue::new(choice.value).help(choice.meaning));
            Arg::new(node.flag)
                .long(node.flag)
                .value_name("ANSWER")
                .help(node.question)
                .value_parser(PossibleValuesParser::new(values))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for QuestionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self(Answers::default());
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for node in &NODES {
            if let Some(value) = matches.get_one::<String>(node.flag) {
                self.0
                    .answer(node.flag, value)
                    .map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, error))?;
            }
        }
        Ok(())
    }
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let mut answers = args.questions.0.clone();
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        ask_all(&mut answers, &mut std::io::stdin().lock(), ui)?;
    }
    let second =
        SecondAnswers { kind: args.second.kind, is_memory_bound: args.second.memory_bound };
    let advice = advise(&answers, second)?;
    let files =
        if args.config.config { files(advice.leaf, &args.config.options())? } else { Vec::new() };
    let text = match args.format {
        Format::Json => json(&advice, &files)?,
        Format::Mermaid => output::mermaid(&advice),
        Format::Text => {
            let look = args.output.look(ui);
            output::page(&advice).text(look) + &config_text(&files, look)
        }
    };
    args.output.write(&text, ui)?;
    Ok(ExitCode::Done)
}

/// Asks the open questions on the way to a leaf, until the input ends.
fn ask_all(answers: &mut Answers, input: &mut impl BufRead, ui: &Ui) -> Result<(), ExpectedError> {
    while let End::Open(node) = walk(answers).end {
        ui.note(&format!("{}. {}", node.number, node.question));
        for choice in node.choices {
            ui.note(&format!("   {}: {}", choice.value, choice.meaning));
        }
        let Some(value) = answer(input)? else {
            return Ok(());
        };
        if answers.answer(node.flag, &value).is_err() {
            ui.note(&format!("   accepted: {}", node.values(", ")));
        }
    }
    Ok(())
}

/// The files as they are, each below its name and purpose.
pub(super) fn config_text(files: &[ConfigFile], look: Look) -> String {
    let section = |file: &ConfigFile| {
        let mut head = Page::new(format!("--- {}", file.name));
        head.say(file.purpose.as_str());
        format!("\n{}\n{}", head.text(look), file.text)
    };
    files.iter().map(section).collect()
}

fn json(advice: &Advice, files: &[ConfigFile]) -> Result<String, ExpectedError> {
    if files.is_empty() {
        return versioned_json("advise", advice);
    }
    versioned_json("advise", &serde_json::json!({ "advice": advice, "files": files }))
}

#[cfg(test)]
mod tests {
    use gpubench_predict::advise::Answers;

    use super::super::ui::ColorWhen;
    use super::{Ui, ask_all};

    #[test]
    fn a_dialog_repeats_a_question_until_its_answer_is_accepted() {
        let mut answers = Answers::default();
        let mut input = "maybe\nhard\n no \nunread\n".as_bytes();
        let result =
            ask_all(&mut answers, &mut input, &Ui::from_environment(ColorWhen::Auto, false));
        assert!(result.is_ok());
        assert_eq!((answers.value(1), answers.value(2)), (Some("hard"), Some("no")));
        assert_eq!(input, b"unread\n");
    }

    #[test]
    fn a_dialog_ends_with_its_input() {
        let mut answers = Answers::default();
        let mut input = "shared\n".as_bytes();
        let result =
            ask_all(&mut answers, &mut input, &Ui::from_environment(ColorWhen::Auto, false));
        assert!(result.is_ok());
        assert_eq!((answers.value(1), answers.value(3)), (Some("shared"), None));
    }
}
