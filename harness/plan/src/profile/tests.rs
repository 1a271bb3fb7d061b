//! Messages for profiles that conflict with defaults and flags, and for damaged files.

mod invalid;

use std::path::PathBuf;

use gpubench_profiles::PROFILES;
use gpubench_record::user_victim::Reports;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{Overrides, Profile, ProfileError, Span, Wanted, built_in, parse, schema};

/// The text of the default profile.
const DEFAULT: &str = PROFILES[0].1;
/// Where the table of keys is.
const KEYS: &str = "reports/book/src/reference/profiles.md";

fn message(text: &str) -> String {
    match parse("mine.toml", text, &Overrides::default()) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A text that makes a default invalid: the line and the key of the text, and the key of the
/// default that conflicts with it.
const CONFLICTS: &[(&str, usize, &str, &str)] = &[
    ("service = \"20ms\"", 3, "service", "cell_min.closed"),
    (
        "service = \"500ms\"\ncell_min.closed = \"20s\"\ncell.closed = \"20s\"",
        3,
        "service",
        "cell_min.open",
    ),
    ("[cell_min]\nclosed = \"10s\"", 4, "cell_min.closed", "cell.closed"),
    ("[cell_min]\n\nopen = \"10s\"", 5, "cell_min.open", "cell.open"),
    ("blocks.min = 12", 3, "blocks.min", "blocks.max"),
    ("[thresholds]\nretention_l2 = 0.97", 4, "thresholds.retention_l2", "thresholds.retention_l3"),
    (
        "[thresholds]\njitter_negligible = 2.0",
        4,
        "thresholds.jitter_negligible",
        "thresholds.service_jitter_low_medium",
    ),
];

#[test]
fn a_default_that_becomes_invalid_is_reported_at_the_key_of_the_file() {
    let default = DEFAULT;
    for (text, line, key, beside) in CONFLICTS {
        let reported = message(&format!("version = 1\n\n{text}\n"));
        let begins = format!(
            "profile mine.toml:{line}: key `{key}`: it conflicts with `{beside}` \
             (built-in default:"
        );
        let rest = reported.strip_prefix(&begins).unwrap_or_default();
        let number = rest.split(')').next().and_then(|number| number.parse::<usize>().ok());
        let there = number.and_then(|number| default.lines().nth(number.saturating_sub(1)));
        let last = beside.rsplit('.').next().unwrap_or_default();
        assert!(there.is_some_and(|there| there.starts_with(last)), "{text}: {reported}");
        assert!(
            reported.contains(&format!("(accepted: another {key}, or for {beside}: ")),
            "{text}: {reported}"
        );
    }
    // Where the file sets both keys, the message is about the one that is bound.
    let both = message("version = 1\nservice = \"20ms\"\n[cell_min]\nclosed = \"200ms\"\n");
    assert!(
        both.starts_with("profile mine.toml:4: key `cell_min.closed`: 200ms is too small"),
        "{both}"
    );
}

#[test]
fn a_service_time_of_the_rotation_is_reported_as_the_file_has_it() {
    for (services, begins) in [
        (
            "\"1ms\", \"20ms\"",
            "20ms is too long for `cell_min.closed` (accepted: a shorter one, or for \
             cell_min.closed: 400ms to ",
        ),
        ("\"2s\", \"1ms\"", "2s is too large (accepted: "),
    ] {
        let reported = message(&format!("version = 1\n[rotation]\nservices = [{services}]\n"));
        let begins = format!("profile mine.toml:3: key `rotation.services`: {begins}");
        assert!(reported.starts_with(&begins), "{reported}");
    }
}

#[test]
fn a_flag_that_conflicts_with_the_file_is_reported_with_the_line_of_the_file() {
    let text = "version = 1\ntenants = 3\nneighbours = [\"aggressor\", \"peer\"]\n";
    let flags = Overrides { victim_cmd: Some("serve".to_owned()), ..Overrides::default() };
    let reported = match parse("mine.toml", text, &flags) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let begins = "profile the command line: key `user-victim.command`: it conflicts with \
                  `neighbours` (mine.toml:3): the user's own program has no peers (accepted: ";
    assert!(reported.starts_with(begins), "{reported}");
}

#[test]
fn a_text_that_is_not_toml_is_reported_with_its_line() {
    let text = message("version = 1\nseed = \n");
    assert!(text.starts_with("profile mine.toml:2: not TOML: "), "{text}");
    assert!(!text.contains('\n'), "{text}");
    let twice = message("version = 1\nseed = 1\nseed = 2\n");
    assert!(twice.starts_with("profile mine.toml:3: not TOML: "), "{twice}");
}

/// The default profile with some characters replaced.
fn damaged(start: usize, length: usize, put: &str) -> String {
    let characters: Vec<char> = DEFAULT.chars().collect();
    let start = start % characters.len();
    let end = (start + length).min(characters.len());
    let (before, after) = (&characters[..start], &characters[end..]);
    before.iter().chain(&put.chars().collect::<Vec<_>>()).chain(after).collect()
}

const PUT: &[&str] = &["", "=", "\"", "[", "x", "-1", "1e9", "\n", "9999999999", "é"];

proptest! {
    #[test]
    fn every_text_is_accepted_or_reported_in_one_line_of_the_file(
        start in any::<usize>(),
        length in 0_usize..12,
        put in prop::sample::select(PUT),
    ) {
        let text = damaged(start, length, put);
        if let Err(error) = parse("mine.toml", &text, &Overrides::default()) {
            let line = error.line;
            prop_assert!(line.is_none_or(|line| (1..=text.lines().count() + 1).contains(&line)));
            let reported = error.to_string();
            let is_one_line = reported.starts_with("profile ") && !reported.contains('\n');
            prop_assert!(is_one_line, "{}", reported);
        }
    }
}

// Files generated from the profile: its schema and the table of keys.

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Compares a generated file with the one checked in, or writes it where
/// `GPUBENCH_REGENERATE` is set.
fn assert_generated(file: &str, generated: &str) -> TestResult {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("GPUBENCH_REGENERATE").is_some() {
        std::fs::write(&path, generated)?;
    }
    let found = std::fs::read_to_string(&path)?;
    assert!(
        found == generated,
        "{file} is out of date: run `GPUBENCH_REGENERATE=1 cargo test -p gpubench profile`"
    );
    Ok(())
}

#[test]
fn the_published_schema_is_up_to_date() -> TestResult {
    let text = serde_json::to_string_pretty(&schema::schema())? + "\n";
    assert_generated("profiles/schema.json", &text)
}

#[test]
fn the_book_lists_every_key() -> TestResult {
    const BEGIN: &str = "<!-- keys: generated, do not edit -->\n";
    const END: &str = "<!-- end of keys -->";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(KEYS);
    let found = std::fs::read_to_string(path)?;
    let (before, rest) = found.split_once(BEGIN).ok_or("no mark where the keys begin")?;
    let (_, after) = rest.split_once(END).ok_or("no mark where the keys end")?;
    let keys = keys_table();
    assert!(keys.lines().count() > 30, "{keys}");
    for line in keys.lines().skip(2) {
        assert!(
            !line.contains("| - |") && !line.ends_with("|  |"),
            "a default and a meaning: {line}"
        );
    }
    assert_generated(KEYS, &format!("{before}{BEGIN}{keys}{END}{after}"))
}

/// The Markdown table of every key with its default, as the book holds it.
fn keys_table() -> String {
    let schema = schema::schema();
    // The default profile is part of the binary, and every load parses it.
    let defaults = DEFAULT.parse::<toml::Table>().unwrap_or_default();
    let mut lines = vec!["| key | default | meaning |".to_owned(), "|---|---|---|".to_owned()];
    let root = schema.as_object().cloned().unwrap_or_default();
    for (key, property) in properties(&root, &root) {
        let default = defaults.get(&key);
        let fields = properties(&root, &resolve(&root, &property));
        if fields.is_empty() {
            lines.push(line(&key, default, &property));
        }
        for (field, property) in fields {
            let default = default.and_then(|table| table.get(&field));
            lines.push(line(&format!("{key}.{field}"), default, &property));
        }
    }
    lines.join("\n") + "\n"
}

fn line(key: &str, default: Option<&toml::Value>, property: &Map<String, Value>) -> String {
    let default = default.map_or_else(|| "-".to_owned(), |value| format!("`{value}`"));
    let meaning = property.get("description").and_then(Value::as_str).unwrap_or("");
    format!("| `{key}` | {default} | {} |", meaning.replace('\n', " "))
}

/// The properties of an object schema, in the order of the schema.
fn properties(
    root: &Map<String, Value>,
    schema: &Map<String, Value>,
) -> Vec<(String, Map<String, Value>)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let entries = properties.into_iter().flatten().filter_map(|(key, property)| {
        let mut property = property.as_object()?.clone();
        if !property.contains_key("description") {
            let target = resolve(root, &property);
            property.extend(target.get("description").cloned().map(|d| ("description".into(), d)));
        }
        Some((key.clone(), property))
    });
    entries.collect()
}

/// The target of `$ref`, or the schema itself.
fn resolve(root: &Map<String, Value>, schema: &Map<String, Value>) -> Map<String, Value> {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
    let target = name.and_then(|name| root.get("$defs")?.get(name)?.as_object());
    target.unwrap_or(schema).clone()
}

// Loading: built-in profiles, files, and flags over them.

#[test]
fn the_default_sets_every_key() -> TestResult {
    let bare: Profile = toml::from_str(DEFAULT)?;
    let laid = built_in("default", &Overrides::default())?;
    assert_eq!(Profile { name: laid.name.clone(), ..bare }, laid);
    assert_eq!(laid.thresholds, gpubench_record::Thresholds::default());
    assert_eq!(laid.margins, gpubench_record::Margins::default());
    Ok(())
}

#[test]
fn every_built_in_profile_is_accepted_and_has_a_summary() -> TestResult {
    for &(name, text) in PROFILES {
        let profile = built_in(name, &Overrides::default())?;
        assert_eq!(profile.name, name);
        assert!(text.contains("\nsummary = "), "{}: a summary of its own", name);
        // Victims can be calibrated to these lengths.
        let [shortest_ns, longest_ns] = gpubench_catalogue::workload::LENGTHS_NS;
        assert!(
            (shortest_ns..=longest_ns).contains(&profile.service.ns),
            "{}: {}",
            name,
            profile.service
        );
    }
    Ok(())
}

#[test]
fn the_profiles_of_the_hardware_day_are_accepted() -> TestResult {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../profiles/hardware");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().ok_or("no name")?.to_string_lossy().into_owned();
        parse(&name, &std::fs::read_to_string(&path)?, &Overrides::default())?;
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["day", "dose", "faults", "probes", "repeat"]);
    Ok(())
}

#[test]
fn the_command_line_replaces_settings_and_is_checked() -> TestResult {
    let overrides = Overrides {
        seed: Some(u64::MAX),
        mechanisms: vec!["exclusive".to_owned()],
        axes: vec!["jitter".to_owned()],
        ..Overrides::default()
    };
    let profile = built_in("smoke", &overrides)?;
    assert_eq!(profile.seed, u64::MAX);
    assert_eq!(profile.mechanisms, Wanted::Names(vec!["exclusive".to_owned()]));
    let layouts = ["mig[2x1g+2g]", "mig-mps[3g]"].map(str::to_owned).to_vec();
    let overrides = Overrides { mechanisms: layouts, ..Overrides::default() };
    let profile = built_in("smoke", &overrides)?;
    assert_eq!((&*profile.mig.layout, &*profile.mig_mps.layout), ("1g+1g+2g", "3g"));
    assert_eq!(profile.mechanisms, Wanted::Names(vec!["mig".to_owned(), "mig-mps".to_owned()]));
    let variants = ["mps-quota[pct=50]", "hami[memory=50,sm=50]", "time-slicing-capped[50%]"];
    let mechanisms = variants.map(str::to_owned).to_vec();
    let profile = built_in("default", &Overrides { mechanisms, ..Overrides::default() })?;
    let names = ["mps-quota", "hami", "time-slicing-capped"].map(str::to_owned).to_vec();
    assert_eq!(profile.mechanisms, Wanted::Names(names));
    for (layouts, error) in [
        (vec!["mps-quota[pct=25]"], "the profile has no mps-quota[pct=25] (accepted: mps-quota, "),
        (
            vec!["mps-quota[25%]"],
            "`printf 'version = 1\\n[mps-quota]\\npct = 25\\n' > options.toml`",
        ),
        (vec!["mps-quota[pct=150]"], "option mps-quota.pct: 150 is too large (accepted: 1 to 100)"),
        (
            vec!["mps-quota[foo=1]"],
            "mps-quota[foo=1] has no option \"foo=1\" (accepted: mps-quota, and ",
        ),
        (vec!["mig[1g+1g]", "mig[3g+3g]"], "mig[3g+3g]"),
        (vec!["mig[big]"], "\"big\" is not a layout"),
        (vec!["mps[1g]"], "mps[1g]"),
    ] {
        let mechanisms = layouts.into_iter().map(str::to_owned).collect();
        let refused = built_in("smoke", &Overrides { mechanisms, ..Overrides::default() });
        let refused = refused.map(|_| ()).map_err(|error| error.to_string());
        assert!(refused.as_ref().is_err_and(|text| text.contains(error)), "{refused:?}");
    }
    let overrides = Overrides { axes: vec!["warmth".to_owned()], ..Overrides::default() };
    let Err(ProfileError { file, line, .. }) = parse("mine.toml", "version = 1", &overrides) else {
        return Err("an unknown axis was accepted".into());
    };
    assert_eq!((file.as_str(), line), ("the command line", None));
    Ok(())
}

/// Each remedy of a refused option of a mechanism is a profile that is read.
#[test]
fn the_remedy_of_a_refused_option_is_accepted() -> TestResult {
    let (mut read, mut refused) = (0, 0);
    for name in gpubench_catalogue::mechanism::names() {
        for options in [
            "pct=25",
            "pct=0",
            "pct=150",
            "25%",
            "150%",
            "memory=30",
            "memory=500",
            "sm=20",
            "sm=999",
            "chunks=1",
            "chunks=x",
            "slice=short",
            "slice=x",
            "by=daemon",
            "foo=1",
            "",
            "=",
            "'",
        ] {
            let mechanisms = vec![format!("{name}[{options}]")];
            let overrides = Overrides { mechanisms: mechanisms.clone(), ..Overrides::default() };
            let Err(error) = built_in("default", &overrides) else { continue };
            let text = error.to_string();
            assert!(!error.accepted.is_empty(), "{text}");
            let Some((_, profile)) = text.split_once("`printf '") else {
                refused += 1;
                continue;
            };
            let profile = profile.split('\'').next().ok_or("the text")?.replace("\\n", "\n");
            parse("options.toml", &profile, &Overrides::default())?;
            assert!(profile.lines().count() > 2, "{mechanisms:?}: {text}");
            read += 1;
        }
    }
    assert!(read > 5 && refused > 20, "{read} {refused}");
    Ok(())
}

#[test]
fn flags_for_a_program_need_a_program() -> TestResult {
    let lines = |command: Option<&str>| Overrides {
        victim_cmd: command.map(str::to_owned),
        victim_reports: Some(Reports::Lines),
        ..Overrides::default()
    };
    let refused = parse("mine.toml", "version = 1", &lines(None));
    let wanted = "profile the command line: key `user-victim.reports`: there is no program that \
                  reports its work (accepted: --victim-cmd beside it)";
    assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(wanted));
    let waits = Overrides { victim_ready: Some(Span::from_s(90)), ..Overrides::default() };
    let refused = parse("mine.toml", "version = 1", &waits);
    let wanted = "profile the command line: key `user-victim.ready`: there is no program to wait \
                  for (accepted: --victim-cmd beside it)";
    assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(wanted));
    let own = "version = 1\n[user-victim]\ncommand = \"serve\"\n";
    let wrong = own.replace("serve", " ");
    let error = parse("mine.toml", &wrong, &Overrides::default()).err();
    assert_eq!(error.and_then(|error| error.line), Some(3));
    assert_eq!(parse("mine.toml", own, &waits)?.user_victim.ready, Span::from_s(90));
    for profile in [
        parse("mine.toml", own, &lines(None))?,
        parse("mine.toml", "version = 1", &lines(Some("serve")))?,
    ] {
        assert_eq!(profile.user_victim.reports, Reports::Lines);
    }
    Ok(())
}
