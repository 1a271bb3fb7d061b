//! From a text to a checked profile.

use std::collections::BTreeSet;

use gpubench_profiles::PROFILES;
use gpubench_record::user_victim::Reports;
use gpubench_record::{Axis, parser_message};
use serde::Deserialize;
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::check::check;
use super::error::{Fault, ProfileError, Step, dotted};
use super::{Profile, Span, Wanted, tables};

/// Version of the profile format that this build reads.
const VERSION: i64 = 1;

/// Settings of the command line that replace those of the file. Empty lists replace nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    pub seed: Option<u64>,
    /// The run of the rotation.
    pub rotation: Option<u32>,
    pub mechanisms: Vec<String>,
    pub axes: Vec<String>,
    /// The command of the user's own program as the victim.
    pub victim_cmd: Option<String>,
    /// How that program reports its work.
    pub victim_reports: Option<Reports>,
    /// The longest time until that program is ready.
    pub victim_ready: Option<Span>,
}

/// The built-in profile of that name.
/// Fails when there is none, or it is invalid with the settings of the command line.
pub fn built_in(name: &str, overrides: &Overrides) -> Result<Profile, ProfileError> {
    let file = format!("built-in {name}");
    let Some((name, text)) = PROFILES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = names().collect();
        let (key, problem) = (String::new(), "no such profile".to_owned());
        return Err(ProfileError { file, line: None, key, problem, accepted: known.join(", ") });
    };
    Ok(Profile { name: (*name).to_owned(), ..parse(&file, text, overrides)? })
}

/// Lays a text over the default profile and checks the result.
/// Fails with the first mistake, with the line of the key that is at fault.
pub fn parse(file: &str, text: &str, overrides: &Overrides) -> Result<Profile, ProfileError> {
    let base = Source::parse(format!("built-in {}", PROFILES[0].0), PROFILES[0].1)?;
    let own = Source::parse(file.to_owned(), text)?;
    version(&own)?;
    let mut table = base.table.clone();
    lay_over(&mut table, &own.table);
    let blame = |fault: Fault| blame(&fault, &own, &base);
    let mut profile = deserialize(table).map_err(blame)?;
    check(&profile).map_err(blame)?;
    override_with(&mut profile, overrides);
    let consistent = check(&profile).and_then(|()| has_program(&profile, overrides));
    consistent.map_err(|fault| blame_flags(&fault, &own, &base))?;
    Ok(profile)
}

/// The profile of a run that goes on, from the JSON in its record; `None` if that is no valid
/// profile.
pub fn restored(json: &str, name: &str, run: u32) -> Option<Profile> {
    let profile: Profile = serde_json::from_str(json).ok()?;
    check(&profile).ok()?;
    Some(Profile { name: name.to_owned(), run, ..profile })
}

/// Locates a mistake: at the key itself where the file sets it, at a key of the file that makes the
/// default invalid, else at the default.
fn blame(fault: &Fault, own: &Source<'_>, base: &Source<'_>) -> ProfileError {
    let mut bounds = fault.bound_by.iter();
    if !own.sets(&fault.path)
        && let Some(cause) = bounds.find(|path| own.sets(path))
    {
        return ProfileError {
            file: own.name.clone(),
            line: own.line_of(cause),
            ..at_cause(fault, cause, &base.location_of(&fault.path))
        };
    }
    if own.line_of(&fault.path).is_some() { own.error(fault) } else { base.error(fault) }
}

/// The same for a mistake that a flag of the command line causes; the file is valid without it.
fn blame_flags(fault: &Fault, own: &Source<'_>, base: &Source<'_>) -> ProfileError {
    let source = if own.sets(&fault.path) { own } else { base };
    let error = match fault.bound_by.first() {
        Some(cause) => at_cause(fault, cause, &source.location_of(&fault.path)),
        None => ProfileError {
            file: String::new(),
            line: None,
            key: fault.dotted(),
            problem: fault.problem.clone(),
            accepted: fault.accepted.clone(),
        },
    };
    ProfileError { file: "the command line".to_owned(), ..error }
}

/// A mistake reported at the key that makes another one, at `location`, invalid.
fn at_cause(fault: &Fault, cause: &[Step], location: &str) -> ProfileError {
    let (key, problem) = (fault.dotted(), &fault.problem);
    let cause = dotted(cause);
    ProfileError {
        file: String::new(),
        line: None,
        problem: format!("it conflicts with `{key}` ({location}): {problem}"),
        accepted: format!("another {cause}, or for {key}: {}", fault.accepted),
        key: cause,
    }
}

/// Checks that flags for the user's own program come with a program. Without one, gpubench would
/// measure its own victims instead.
fn has_program(profile: &Profile, overrides: &Overrides) -> Result<(), Fault> {
    if profile.user_victim.victim().is_some() {
        return Ok(());
    }
    let (key, problem) = if overrides.victim_reports.is_some() {
        ("reports", "there is no program that reports its work")
    } else if overrides.victim_ready.is_some() {
        ("ready", "there is no program to wait for")
    } else {
        return Ok(());
    };
    let key = format!("user-victim.{key}");
    Err(Fault::at(&key, problem, "--victim-cmd beside it"))
}

/// Checks the version first, because other keys can differ between versions.
fn version(own: &Source<'_>) -> Result<(), ProfileError> {
    let problem = match own.table.get("version") {
        Some(Value::Integer(VERSION)) => return Ok(()),
        Some(other) => format!("this gpubench does not read version {other}"),
        None => "missing".to_owned(),
    };
    Err(own.error(&Fault::at("version", problem, VERSION.to_string())))
}

/// GPU instances of one size (NVIDIA, MIG User Guide: seven at most).
const INSTANCES: std::ops::RangeInclusive<usize> = 1..=7;

/// The name of a mechanism without its options. A layout of MIG is set in the profile:
/// `mig[3g+3g]`; a second one is left in the name, which is unknown then: a run has one. So are
/// other options that are not those of the profile.
fn without_options(profile: &mut Profile, text: &str) -> String {
    let (name, layout) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some(("mig", layout)) => ("mig", (layout, &mut profile.mig.layout)),
        Some(("mig-mps", layout)) => ("mig-mps", (layout, &mut profile.mig_mps.layout)),
        Some((name, options)) if has_options(profile, name, options) => return name.to_owned(),
        _ => return text.to_owned(),
    };
    let (wanted, set) = layout;
    let wanted = whole_layout(wanted);
    if *set != "auto" && *set != wanted {
        return text.to_owned();
    }
    *set = wanted;
    name.to_owned()
}

/// A layout with each instance named: `7x1g.10gb` is seven of them.
fn whole_layout(text: &str) -> String {
    let parts = text.split('+').flat_map(|part| {
        let counted = part.split_once('x').and_then(|(count, size)| {
            let count = count.trim().parse().ok().filter(|count| INSTANCES.contains(count))?;
            Some((count, size.trim()))
        });
        let (count, size) = counted.unwrap_or((1, part));
        std::iter::repeat_n(size, count)
    });
    parts.collect::<Vec<_>>().join("+")
}

/// Whether a mechanism of this profile has these options, as its variant names them:
/// `memory=50,sm=50`, and `50%` as in a label.
fn has_options(profile: &Profile, name: &str, options: &str) -> bool {
    let tables = serde_json::to_value(profile).unwrap_or_default();
    let Some(table) = tables.get(name).and_then(serde_json::Value::as_object) else {
        return false;
    };
    let is = |value: &serde_json::Value, wanted: &str| match (value.as_str(), wanted) {
        (Some(text), _) => text == wanted,
        // No number of chunks divides the device evenly.
        (None, "even") => value == 0,
        (None, _) => wanted.parse::<u64>().is_ok_and(|number| *value == number),
    };
    options.split(',').all(|option| match option.split_once('=') {
        Some((key, wanted)) => {
            let mut keys = [key.to_owned(), format!("{key}_pct")].into_iter();
            keys.any(|key| table.get(&key).is_some_and(|value| is(value, wanted)))
        }
        None => {
            let wanted = option.trim_end_matches('%');
            table.values().any(|value| is(value, wanted))
        }
    })
}

fn override_with(profile: &mut Profile, overrides: &Overrides) {
    if let Some(seed) = overrides.seed {
        profile.seed = seed;
    }
    if let Some(run) = overrides.rotation {
        profile.run = run;
    }
    if !overrides.mechanisms.is_empty() {
        let names = overrides.mechanisms.iter().map(|text| without_options(profile, text));
        profile.mechanisms = Wanted::Names(names.collect());
    }
    for layout in [&mut profile.mig.layout, &mut profile.mig_mps.layout] {
        *layout = whole_layout(layout);
    }
    if !overrides.axes.is_empty() {
        // The jitter beside one resource needs the axes of both, and their pair.
        let of_jitter = |name: &String| name.strip_prefix("jitter/").map(str::to_owned);
        let beside: Vec<String> = overrides.axes.iter().filter_map(of_jitter).collect();
        let plain = overrides.axes.iter().filter(|name| of_jitter(name).is_none()).cloned();
        let mut axes: Vec<String> = plain.chain(beside.iter().cloned()).collect();
        if !beside.is_empty() {
            axes.push(Axis::Jitter.as_str().to_owned());
            profile.jitter_pairs = Wanted::Names(beside);
        }
        let mut seen = BTreeSet::new();
        axes.retain(|name| seen.insert(name.clone()));
        profile.axes = Wanted::Names(axes);
    }
    if let Some(command) = &overrides.victim_cmd {
        profile.user_victim.command.clone_from(command);
    }
    if let Some(reports) = overrides.victim_reports {
        profile.user_victim.reports = reports;
    }
    if let Some(ready) = overrides.victim_ready {
        profile.user_victim.ready = ready;
    }
}

fn deserialize(table: toml::Table) -> Result<Profile, Fault> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(Value::Table(table), &mut track);
    Profile::deserialize(tracked).map_err(|error| {
        let path = track.path();
        let steps = path.iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let (mut problem, mut accepted) = in_plain_words(&parser_message(error.message()));
        let steps: Vec<Step> = steps.collect();
        if let [Step::Key(table), Step::Key(key)] = steps.as_slice()
            && let Some(new) = tables::renamed(table, key)
        {
            (problem, accepted) = ("a key of scoring-v3".to_owned(), new.to_owned());
        }
        Fault { path: steps, problem, accepted, bound_by: Vec::new() }
    })
}

/// Splits a parser's `<problem>, expected <what>`, and names types as TOML does.
fn in_plain_words(message: &str) -> (String, String) {
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let problem = if problem.starts_with("unknown field") { "unknown key" } else { problem };
    let expected = expected.strip_prefix("one of ").unwrap_or(expected);
    let accepted = match expected {
        "an object" => "a table",
        "a text" => "a text in quotes",
        text => text,
    };
    (problem.to_owned(), accepted.replace('`', ""))
}

// One profile text: its table, which is laid over another, and the line of each key.

/// A TOML text with its name in messages.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Path, or `built-in NAME`.
    pub name: String,
    text: &'a str,
    located: Spanned<DeTable<'a>>,
    /// The same without positions.
    pub table: Table,
}

impl<'a> Source<'a> {
    /// Reads a text.
    pub(super) fn parse(name: String, text: &'a str) -> Result<Self, ProfileError> {
        let refuse = |error: toml::de::Error| ProfileError {
            file: name.clone(),
            line: error.span().map(|span| line_at(text, span.start)),
            key: String::new(),
            problem: format!("not TOML: {}", one_line(&parser_message(error.message()))),
            accepted: String::new(),
        };
        let located = DeTable::parse(text).map_err(refuse)?;
        let table = text.parse::<Table>().map_err(refuse)?;
        Ok(Self { name, text, located, table })
    }

    /// The line of the deepest part of the path that this text has; `None` where it lacks the first
    /// step.
    pub(super) fn line_of(&self, path: &[Step]) -> Option<usize> {
        let Some((Step::Key(first), rest)) = path.split_first() else {
            return None;
        };
        Some(line_at(self.text, position_in(self.located.get_ref(), first, rest)?))
    }

    /// Whether this text sets the key itself.
    pub(super) fn sets(&self, path: &[Step]) -> bool {
        let mut table = Some(&self.table);
        let mut keys = path.iter().filter_map(|step| match step {
            Step::Key(key) => Some(key),
            Step::Index(_) => None,
        });
        keys.all(|key| {
            let value = table.and_then(|table| table.get(key));
            table = value.and_then(Value::as_table);
            value.is_some()
        })
    }

    /// File and line of a key.
    pub(super) fn location_of(&self, path: &[Step]) -> String {
        let line = self.line_of(path);
        line.map_or(self.name.clone(), |line| format!("{}:{line}", self.name))
    }

    /// A mistake in this text.
    pub(super) fn error(&self, fault: &Fault) -> ProfileError {
        ProfileError {
            file: self.name.clone(),
            line: self.line_of(&fault.path),
            key: fault.dotted(),
            problem: fault.problem.clone(),
            accepted: fault.accepted.clone(),
        }
    }
}

/// The position of the key, or of the deepest part of the path in its value.
fn position_in(table: &DeTable<'_>, key: &str, rest: &[Step]) -> Option<usize> {
    let (name, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    let deeper = match (value.get_ref(), rest.split_first()) {
        (DeValue::Table(inner), Some((Step::Key(next), rest))) => position_in(inner, next, rest),
        (DeValue::Array(items), Some((Step::Index(index), _))) => {
            items.get(*index).map(|item| item.span().start)
        }
        _ => None,
    };
    Some(deeper.unwrap_or(name.span().start))
}

fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&b| b == b'\n').count()
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lays `over` onto `under`: tables key by key; every other value is replaced.
pub(super) fn lay_over(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

// The profiles of `gpubench-profiles`. All others are laid over the first.

/// Every name.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// The `summary` of a profile. Tests check that every built-in profile has one.
pub fn summary(text: &str) -> String {
    let table = text.parse::<Table>().unwrap_or_default();
    table.get("summary").and_then(Value::as_str).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::Source;
    use crate::profile::error::Step;

    const TEXT: &str =
        "version = 1\naxes = [\n  \"compute\",\n  \"jitter\",\n]\n\n[blocks]\nmin = 8\n";

    fn key(name: &str) -> Step {
        Step::Key(name.to_owned())
    }

    #[test]
    fn keys_and_list_elements_have_lines() -> Result<(), String> {
        let source = Source::parse("t".to_owned(), TEXT).map_err(|e| format!("{e:?}"))?;
        for (path, line) in [
            (vec![key("version")], Some(1)),
            (vec![key("axes")], Some(2)),
            (vec![key("axes"), Step::Index(1)], Some(4)),
            (vec![key("axes"), Step::Index(9)], Some(2)),
            (vec![key("blocks"), key("min")], Some(8)),
            (vec![key("blocks"), key("max")], Some(7)),
            (vec![key("cell"), key("open")], None),
            (vec![], None),
        ] {
            assert_eq!(source.line_of(&path), line, "{path:?}");
        }
        Ok(())
    }
}
