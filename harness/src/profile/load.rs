//! From a name or a path to a checked profile.

use std::path::Path;

use gpubench_record::parser_message;
use gpubench_record::user_victim::Reports;
use serde::Deserialize;
use serde_path_to_error::Segment;
use toml::Value;

use super::built_in::{self, DEFAULT};
use super::check::check;
use super::error::{Fault, ProfileError, Step, dotted};
use super::source::{Source, lay_over};
use super::{Profile, Span, Wanted};
use crate::error::ExpectedError;
use crate::error::input::{WRITTEN_BYTES_MAX, read_text};

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

/// Loads a built-in profile by name, or any profile by path.
///
/// # Errors
/// When there is no such profile, it cannot be read, or it is invalid.
pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Profile, ExpectedError> {
    if let Some(found) = built_in::CATALOGUE.iter().find(|entry| entry.name == name_or_path) {
        let file = format!("built-in {}", found.name);
        let mut profile = parse(&file, found.text, overrides)?;
        found.name.clone_into(&mut profile.name);
        return Ok(profile);
    }
    let path = Path::new(name_or_path);
    let is_path = name_or_path.contains('/') || name_or_path.ends_with(".toml") || path.exists();
    if !is_path {
        let mut known = built_in::names();
        known.push("or the path of a .toml file".to_owned());
        let name = name_or_path.to_owned();
        return Err(ExpectedError::UnknownName { kind: "profile", name, known });
    }
    let text = read_text("profile", path, WRITTEN_BYTES_MAX)?;
    let mut profile = parse(name_or_path, &text, overrides)?;
    profile.name =
        path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(profile)
}

/// Lays a text over the default profile and checks the result.
///
/// # Errors
/// The first mistake, with the line of the key that is at fault.
pub fn parse(file: &str, text: &str, overrides: &Overrides) -> Result<Profile, ProfileError> {
    let base = Source::parse(format!("built-in {}", DEFAULT.name), DEFAULT.text)?;
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
#[must_use]
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

fn override_with(profile: &mut Profile, overrides: &Overrides) {
    if let Some(seed) = overrides.seed {
        profile.seed = seed;
    }
    if let Some(run) = overrides.rotation {
        profile.run = run;
    }
    if !overrides.mechanisms.is_empty() {
        profile.mechanisms = Wanted::Names(overrides.mechanisms.clone());
    }
    if !overrides.axes.is_empty() {
        profile.axes = Wanted::Names(overrides.axes.clone());
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
        let (problem, accepted) = in_plain_words(&parser_message(error.message()));
        Fault { path: steps.collect(), problem, accepted, bound_by: Vec::new() }
    })
}

/// Splits serde's `<problem>, expected <what>` and names types in plain words.
fn in_plain_words(message: &str) -> (String, String) {
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let problem = if problem.starts_with("unknown field") { "unknown key" } else { problem };
    let expected = expected.strip_prefix("one of ").unwrap_or(expected);
    let accepted = match expected {
        "u32" | "u64" => "a whole number, not negative",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a string" => "a text in quotes",
        text if text.starts_with("struct ") => "a table",
        text => text,
    };
    (problem.to_owned(), accepted.replace('`', ""))
}
