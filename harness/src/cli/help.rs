//! What `--help` and the manual pages add to the flags: groups, examples, environment, files.

use clap::parser::ValueSource;
use clap::{Arg, Command};
use gpubench_show::wrap_words;

use super::ui::ColorWhen;
use clap::ValueEnum as _;

/// The groups of `--help`, each with the names of its flags in every verb.
const GROUPS: [(&str, &str); 6] = [
    ("Device", "device parallel wait no_gpu limit machine"),
    (
        "What to measure or show",
        "profile seed rotation mechanism axis id verdict for_minutes blocks victim_cmd \
         victim_reports victim_ready length duty window learn least plant hami_lib calibration \
         recalibrate calibrate sessions verify why recipes by vary",
    ),
    ("Probes and faults", "probes escape faults no_faults fault_trials"),
    ("Changes on the host", "allow_reconfigure no_reconfigure rehearse"),
    (
        "Records",
        "out resume retry_failed label nights sign_key sign_password_file public_key repair \
         anonymize to against_history baseline history spread reports metrics events push \
         dataset compact reasons",
    ),
    ("Output", "format full strict output color quiet advisory fail_on"),
];

/// The verbs by what they are for.
const VERBS: [(&str, &str); 5] = [
    ("Measure", "doctor plan matrix nightly watch cleanup"),
    ("Read a record", "report choose claims"),
    ("Compare", "diff history compare outliers export"),
    ("Without a measurement", "advise simulate pack virtual-gpu"),
    ("Reference", "list schemas files completions man help"),
];

/// Columns of the list of verbs, and of the names in it.
const WIDTH: usize = 80;
const NAME: usize = 14;

/// Variables that are read, for the manual pages.
pub const ENVIRONMENT: [(&str, &str); 14] = [
    ("GPUBENCH_DEVICE", "The GPU, as --device, which has priority over it."),
    (
        "GPUBENCH_FORMAT",
        "The format of verbs that have it, as --format, which has priority; others warn.",
    ),
    ("GPUBENCH_COLOR", "auto, always or never, as --color, which has priority."),
    ("GPUBENCH_QUIET", "1 for --quiet."),
    ("GPUBENCH_LABELS", "Labels of a run, separated by commas; those of --label replace them."),
    ("GPUBENCH_SIGN_PASSWORD", "The password of --sign-key; --sign-password-file has priority."),
    (
        "NO_COLOR",
        "Where it is set and not empty: no colour, unless --color or GPUBENCH_COLOR asks.",
    ),
    (
        "FORCE_COLOR",
        "Where it is set and not 0: colour without a terminal, unless NO_COLOR is set.",
    ),
    ("TERM", "dumb: no colour and no bar."),
    ("COLUMNS", "Width of text where stdout is no terminal."),
    ("PAGER", "The pager of --full on a terminal; empty: none. Default: less -FRX."),
    ("CUDA_VISIBLE_DEVICES", "Only these GPUs are accepted, and the first of them is the default."),
    ("XDG_STATE_HOME", "Where the journal of host changes and calibrations are kept."),
    ("TMPDIR", "Where private folders of a run are made."),
];

/// Files that are read or written, for the manual pages.
pub const FILES: [(&str, &str); 5] = [
    ("DIR/record.json", "The record of a run: plan, provenance, cells, scores (schema: record)."),
    ("DIR/events.jsonl", "The events of a run, written as it goes."),
    ("DIR/samples.parquet, telemetry.parquet, report.html", "Requests, telemetry and the page."),
    ("$XDG_STATE_HOME/gpubench/GPU-UUID.jsonl", "What a run changed on the host, until undone."),
    ("$XDG_STATE_HOME/gpubench/calibrations", "Kept calibrations, one a GPU."),
];

/// The examples of all verbs.
const EXAMPLES: &str = include_str!("examples.txt");

/// The examples of a verb, each with what it does.
pub fn examples(verb: &str) -> Vec<(&'static str, &'static str)> {
    let sections = EXAMPLES.split("\n[").map(|section| section.trim_start_matches('['));
    let own = sections.filter_map(|section| section.split_once("]\n"));
    // `history-pin` is a verb of `history`.
    let is_own = |name: &str| {
        verb.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let own = own.filter(|(name, _)| is_own(name)).flat_map(|(_, text)| text.split("$ ").skip(1));
    own.filter_map(|one| one.trim_end().split_once('\n')).collect()
}

/// The command with its verbs and flags in groups, and examples before the exit codes of each verb.
pub fn decorated(command: Command) -> Command {
    let verbs = verbs(&command);
    let command = with_examples(grouped(command), &examples("gpubench"));
    let command = command.mut_subcommands(|verb| {
        let examples = examples(verb.get_name());
        let verb = verb.mut_subcommands(|of| {
            // The third word of the line is the verb of the verb.
            let is_own = |line: &str| line.split(' ').nth(2) == Some(of.get_name());
            let own: Vec<_> = examples.iter().copied().filter(|(line, _)| is_own(line)).collect();
            with_examples(of, &own)
        });
        with_examples(verb, &examples)
    });
    let head = "{about-with-newline}\n{usage-heading} {usage}\n\n";
    command.help_template(format!("{head}{verbs}Options:\n{{options}}{{after-help}}"))
}

fn with_examples(verb: Command, examples: &[(&str, &str)]) -> Command {
    if examples.is_empty() {
        return verb;
    }
    let lines = examples.iter().map(|(line, what)| format!("  {line}\n      {what}\n"));
    let lines: String = lines.collect();
    let rest = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    verb.after_long_help(format!("Examples:\n{lines}\n{rest}"))
}

/// The verbs in groups, each with what it does.
fn verbs(command: &Command) -> String {
    let of = |name: &str| {
        let about = match command.find_subcommand(name) {
            Some(verb) => verb.get_about().map(ToString::to_string).unwrap_or_default(),
            None if name == "help" => "Prints the help of a verb".to_owned(),
            // The virtual GPU is not in every build.
            None => return String::new(),
        };
        let ends = [format!("  {name:NAME$}"), " ".repeat(NAME + 2)];
        let lines = wrap_words(&about, WIDTH, [&ends[0], &ends[1]]);
        lines.into_iter().map(|line| line + "\n").collect()
    };
    let group = |(heading, names): (&str, &str)| {
        format!("{heading}:\n{}\n", names.split(' ').map(of).collect::<String>())
    };
    VERBS.into_iter().map(group).collect()
}

fn grouped(command: Command) -> Command {
    let into_group = |arg: Arg| {
        let id = arg.get_id().as_str();
        let group = GROUPS.iter().find(|(_, ids)| ids.split(' ').any(|one| one == id));
        match group {
            Some((heading, _)) if !arg.is_positional() && arg.get_help_heading().is_none() => {
                arg.help_heading(*heading)
            }
            _ => arg,
        }
    };
    command.mut_args(into_group).mut_subcommands(grouped)
}

/// The command with the defaults that variables set. Flags have priority over them.
/// Fails for a value that no flag accepts, with the variable and what is accepted.
pub fn with_environment(
    command: Command,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Command, String> {
    let given = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let mut command = command;
    if let Some(value) = given("GPUBENCH_COLOR") {
        let known = ColorWhen::from_str(&value, false).is_ok();
        command = with_default(command, "color", &value, known)
            .ok_or_else(|| format!("GPUBENCH_COLOR: '{value}' (accepted: auto, always, never)"))?;
    }
    if let Some(value) = given("GPUBENCH_QUIET").filter(|value| value != "0") {
        command = with_default(command, "quiet", "true", value == "1")
            .ok_or_else(|| format!("GPUBENCH_QUIET: '{value}' (accepted: 0, 1)"))?;
    }
    if let Some(value) = given("GPUBENCH_FORMAT") {
        let mut all = formats(&command);
        all.sort_unstable();
        all.dedup();
        if !all.contains(&value) {
            let all = all.join(", ");
            return Err(format!("GPUBENCH_FORMAT: '{value}' (accepted: {all})"));
        }
        command = with_format(command, &value);
    }
    Ok(command)
}

fn with_default(command: Command, id: &str, value: &str, known: bool) -> Option<Command> {
    known.then(|| command.mut_arg(id, |arg| arg.default_value(kept(value))))
}

/// Defaults live as long as the program.
fn kept(value: &str) -> &'static str {
    value.to_owned().leak()
}

fn formats_of(arg: &Arg) -> Vec<String> {
    if arg.get_id() != "format" {
        return Vec::new();
    }
    arg.get_possible_values().iter().map(|one| one.get_name().to_owned()).collect()
}

/// The formats of all verbs.
fn formats(command: &Command) -> Vec<String> {
    let own = command.get_arguments().flat_map(formats_of);
    own.chain(command.get_subcommands().flat_map(formats)).collect()
}

/// A verb without the format keeps its default.
fn with_format(command: Command, value: &str) -> Command {
    let set = |arg: Arg| match formats_of(&arg).iter().any(|one| one == value) {
        true => arg.default_value(kept(value)),
        false => arg,
    };
    command.mut_args(set).mut_subcommands(|verb| with_format(verb, value))
}

/// That the verb does not have the format of the variable, and prints another.
pub fn unused_format(
    command: &Command,
    matches: &clap::ArgMatches,
    variable: Option<String>,
) -> Option<String> {
    let value = variable.filter(|value| !value.is_empty())?;
    let (mut command, mut matches) = (command, matches);
    while let Some((name, of_verb)) = matches.subcommand() {
        command = command.find_subcommand(name)?;
        matches = of_verb;
    }
    let flag = command.get_arguments().find(|arg| arg.get_id() == "format")?;
    let is_default = matches.value_source("format") == Some(ValueSource::DefaultValue);
    let known = formats_of(flag);
    (is_default && !known.contains(&value)).then(|| {
        let (verb, known) = (command.get_name(), known.join(", "));
        format!("GPUBENCH_FORMAT: '{value}' is no format of {verb} (accepted: {known})")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{ArgMatches, Command};

    use super::super::command;
    use super::{examples, unused_format, with_environment};

    /// Flags that no example has: each of them with its verb.
    const WITHOUT_EXAMPLE: [&str; 0] = [];

    /// The words of a line; quotes hold a word together.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let of = |(at, part): (usize, &str)| -> Vec<String> {
            match at % 2 {
                1 => vec![part.to_owned()],
                _ => part.split_whitespace().map(str::to_owned).collect(),
            }
        };
        parts.flat_map(of).collect()
    }

    fn flags(verb: &Command) -> BTreeSet<String> {
        let nested = verb.get_subcommands().flat_map(flags);
        let own = verb.get_arguments().filter(|arg| !arg.is_hide_set());
        own.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).chain(nested).collect()
    }

    fn used(verb: &Command, found: &ArgMatches, into: &mut BTreeSet<String>) {
        use clap::parser::ValueSource::CommandLine;
        for arg in verb.get_arguments() {
            let given = found.value_source(arg.get_id().as_str()) == Some(CommandLine);
            into.extend(arg.get_long().filter(|_| given).map(|long| format!("--{long}")));
        }
        if let Some((name, found)) = found.subcommand() {
            verb.find_subcommand(name).into_iter().for_each(|verb| used(verb, found, into));
        }
    }

    #[test]
    fn every_example_parses_and_every_flag_has_one() {
        let (mut all, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut command = command();
        command.build();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let name = verb.get_name();
            let lines = examples(name);
            assert!(!lines.is_empty(), "{name} has no example");
            for (line, _) in lines {
                let found = super::super::command().try_get_matches_from(words(line));
                let found = found.unwrap_or_else(|error| panic!("{line}: {error}"));
                used(&super::super::command(), &found, &mut seen);
            }
            all.extend(flags(verb));
        }
        let listed = |verb: &Command| {
            super::VERBS.iter().any(|(_, names)| names.split(' ').any(|one| one == verb.get_name()))
        };
        assert!(command.get_subcommands().all(listed), "a verb is in no group");
        all.remove("--help");
        all.remove("--version");
        seen.insert("--color".to_owned());
        let missing: Vec<&String> = all.difference(&seen).collect();
        assert_eq!(missing, WITHOUT_EXAMPLE, "flags without an example");
    }

    #[test]
    fn a_variable_sets_a_default_below_its_flag() {
        let format = |value: &'static str, line: &str| {
            let lookup = |name: &str| (name == "GPUBENCH_FORMAT").then(|| value.to_owned());
            let found = with_environment(command(), lookup)?.try_get_matches_from(words(line));
            let found = found.map_err(|error| error.to_string())?;
            let (_, verb) = found.subcommand().ok_or("no verb")?;
            Ok::<_, String>(verb.get_raw("format").map(|all| format!("{all:?}")))
        };
        let is = |found: Result<Option<String>, String>, want: &str| {
            assert!(found.as_ref().is_ok_and(|one| one.as_deref().unwrap_or("").contains(want)));
        };
        is(format("md", "gpubench report out"), "md");
        is(format("md", "gpubench report out --format csv"), "csv");
        is(format("md", "gpubench report out --verify"), "md");
        is(format("md", "gpubench plan"), "text");
        let unused = |line| {
            let found = command().try_get_matches_from(words(line)).map_err(|one| one.to_string());
            found.map(|found| unused_format(&command(), &found, Some("md".to_owned())))
        };
        assert!(unused("gpubench plan").is_ok_and(|one| one.is_some()));
        assert_eq!(unused("gpubench plan --format json"), Ok(None));
        assert_eq!(unused("gpubench report out"), Ok(None));
        let wrong = format("yaml", "gpubench plan").unwrap_err();
        assert!(wrong.starts_with("GPUBENCH_FORMAT: 'yaml' (accepted: csv,"), "{wrong}");
    }
}
