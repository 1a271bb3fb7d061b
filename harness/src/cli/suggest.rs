//! What a refused command line says: the tip, and the variable that a value comes from.

use std::collections::BTreeSet;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use gpubench_catalogue::axis;

use crate::error::nearest::nearest;

/// The error with the tip that a reader needs, and without one that leads astray.
pub fn mended(mut error: Error, command: &clap::Command, argv: &[String]) -> Error {
    of_variable(&mut error, argv);
    let verb = argv.iter().skip(1).find_map(|word| command.find_subcommand(word));
    let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let flags: Vec<String> = [Some(command), verb]
        .into_iter()
        .flatten()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
        .collect();
    let values = list(&error, ContextKind::ValidValue);
    let accepted = accepted(&error);
    let short = short_names(&values);
    if error.kind() == ErrorKind::InvalidValue && !short.is_empty() {
        // `faults` and the jitter beside the first aggressor stand for whole axes.
        let whole = ["faults", "jitter/sm"].into_iter();
        let whole = whole.filter(|_| values.iter().any(|value| value == "fault"));
        let all = texts(&values).into_iter().chain(whole).chain(short.iter().copied());
        let all: BTreeSet<&str> = all.collect();
        let all = all.into_iter().map(str::to_owned).collect();
        error.insert(ContextKind::ValidValue, ContextValue::Strings(all));
    }
    for (of, tip, known) in [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand, verbs),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg, texts(&flags)),
        (
            ContextKind::InvalidValue,
            ContextKind::SuggestedValue,
            [texts(&values), texts(&accepted), short].concat(),
        ),
    ] {
        let Some(ContextValue::String(name)) = error.get(of) else {
            continue;
        };
        let name = name.clone();
        error.remove(tip);
        let meant = nearest(&name, known).filter(|meant| !meant.is_empty() && !name.is_empty());
        if let Some(meant) = meant {
            error.insert(tip, ContextValue::String(meant.to_owned()));
        }
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        error.remove(ContextKind::Suggested);
    }
    if let (Some(ContextValue::String(flag)), Some(verb)) =
        (error.get(ContextKind::InvalidArg), verb)
    {
        let tip = as_format(flag, verb).map(|tip| ContextValue::StyledStrs(vec![tip]));
        // A flag that no verb has is no value either.
        if error.kind() == ErrorKind::UnknownArgument {
            error.remove(ContextKind::Suggested);
            tip.map(|tip| error.insert(ContextKind::Suggested, tip));
        }
    }
    error
}

/// The parts of `axis/part` values that name one of them alone.
fn short_names(values: &[String]) -> Vec<&str> {
    let parts = values.iter().filter_map(|value| Some(value.split_once('/')?.1));
    let mut parts: Vec<&str> = parts.filter(|part| axis::named(part).is_some()).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

fn list(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

/// The values that the text of a parser of ours lists.
fn accepted(error: &Error) -> Vec<String> {
    let text = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let list = text.split_once("accepted: ").map_or("", |(_, list)| list);
    list.trim_end_matches(')').split(", ").map(str::to_owned).collect()
}

/// `--format json` for `--json`.
fn as_format(flag: &str, verb: &clap::Command) -> Option<StyledStr> {
    let name = flag.trim_start_matches('-');
    let mut flags = verb.get_arguments().filter(|flag| flag.get_id() == "format");
    let values = flags.next()?.get_possible_values();
    let has = values.iter().any(|value| value.matches(name, true));
    has.then(|| StyledStr::from(format!("use '--format {name}'")))
}

/// Names the variable where a refused value is from the environment.
fn of_variable(error: &mut Error, argv: &[String]) {
    const VARIABLES: [(&str, &str); 1] = [("--device", "GPUBENCH_DEVICE")];
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let flag = named.split(' ').next().unwrap_or_default().to_owned();
    let is_given = |word: &String| *word == flag || word.starts_with(&format!("{flag}="));
    let variable =
        VARIABLES.iter().find(|(of, name)| *of == flag && std::env::var_os(name).is_some());
    if let Some((_, variable)) = variable.filter(|_| !argv.iter().any(is_given)) {
        error.insert(ContextKind::InvalidArg, ContextValue::String((*variable).to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::mended;

    #[test]
    fn a_tip_names_what_is_meant() {
        for (line, tip) in [
            ("gpubench rpeort", "'report'"),
            ("gpubench report out --json", "use '--format json'"),
            ("gpubench diff a b --vary drivr", "'driver'"),
            ("gpubench plan --device virtul", "'virtual'"),
            ("gpubench plan --mechnism mps", "'--mechanism'"),
            ("gpubench list machine", "'machines'"),
            ("gpubench plan --axis drm", "'dram'"),
            ("gpubench plan --mechanism mpss", "'mps'"),
        ] {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = command().try_get_matches_from(&argv).expect_err(line);
            let text = mended(error, &command(), &argv).to_string();
            assert!(text.contains("tip") && text.contains(tip), "{text}");
        }
        let argv = ["gpubench", "plan", "--axis", "qqq"].map(str::to_owned);
        let error = command().try_get_matches_from(&argv).expect_err("no axis");
        let text = mended(error, &command(), &argv).to_string();
        for name in ["bandwidth/dram", " dram", "jitter/dram", " residue"] {
            assert!(text.contains(name), "{text}");
        }
        let argv = ["gpubench", "explain"].map(str::to_owned);
        let error = command().try_get_matches_from(&argv).expect_err("no verb");
        let text = mended(error, &command(), &argv).to_string();
        assert!(!text.contains("tip"), "{text}");
    }
}
