//! Messages for profiles that conflict with defaults and flags, and for damaged files.

mod generated;
mod invalid;
mod loading;

use proptest::prelude::*;

use super::built_in::DEFAULT;
use super::{Overrides, parse};
use crate::error::ExpectedError;

fn message(text: &str) -> String {
    match parse("mine.toml", text, &Overrides::default()) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => ExpectedError::from(error).to_string(),
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
        "thresholds.jitter_low_medium",
    ),
];

#[test]
fn a_default_that_becomes_invalid_is_reported_at_the_key_of_the_file() {
    let default = DEFAULT.text;
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
        Err(error) => crate::error::ExpectedError::from(error).to_string(),
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
    let characters: Vec<char> = DEFAULT.text.chars().collect();
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
            let reported = ExpectedError::from(error).to_string();
            let is_one_line = reported.starts_with("profile ") && !reported.contains('\n');
            prop_assert!(is_one_line, "{}", reported);
        }
    }
}
