//! Messages for wrong profiles, line by line.

mod generated;
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

/// A profile text, and its one-line message.
const WRONG: &[(&str, &str)] = &[
    (
        "",
        "profile mine.toml: key `version`: missing (accepted: 1)",
    ),
    (
        "# mine\nversion = 2\n",
        "profile mine.toml:2: key `version`: this gpubench does not read version 2 \
         (accepted: 1)",
    ),
    (
        "version = 1\nseeds = 3\n",
        "profile mine.toml:2: key `seeds`: unknown key (accepted: version, summary, decides, \
         mechanisms, axes, victims, aggressors, tenants, neighbours, sweep, share, seed, service, \
         load, slo, slo_share, bursts, doses, device_time, telemetry_period, probe_windows, \
         blocks, cell, cell_min, faults, thresholds, user-victim, time-slicing, mps, mps-quota, \
         mps-static, mps-memory, mig, mig-mps, hami)",
    ),
    (
        "version = 1\n\n[blocks]\nmost = 9\n",
        "profile mine.toml:4: key `blocks.most`: unknown key (accepted: min or max)",
    ),
    (
        "version = 1\n[thresholds]\nretention = 0.9\n",
        "profile mine.toml:3: key `thresholds.retention`: unknown key (accepted: \
         retention_l3, retention_l2, guarantee_l3, index_l1, jitter_negligible, \
         jitter_low_medium, effectiveness_max, overlap_min, drift_max, blocks_min, \
         jitter_requests_min)",
    ),
    (
        "version = 1\naxes = [\n  \"compute\",\n  \"l3\",\n]\n",
        "profile mine.toml:4: key `axes`: unknown axis \"l3\" (accepted: memory, compute, \
         bandwidth, jitter, power, compute/sm, compute/issue, compute/launch, compute/driver, \
         bandwidth/dram, bandwidth/l2, bandwidth/pcie, memory/capacity, power/power)",
    ),
    (
        "version = 1\nprobe_windows = [\"10ms\", \"25ms\"]\n",
        "profile mine.toml:2: key `probe_windows`: 25ms is no window here (accepted: \"5ms\" to \
         \"10s\", each once, all multiples of the shortest)",
    ),
    (
        "version = 1\nneighbours = [\"peer\"]\n",
        "profile mine.toml:2: key `neighbours`: the first neighbour runs the aggressor that a cell \
         is about (accepted: a list that begins with \"aggressor\")",
    ),
    (
        "version = 1\nneighbours = [\"aggressor\", \"peer\"]\n",
        "profile mine.toml:2: key `neighbours`: 2 words for 1 neighbours (accepted: at most 1)",
    ),
    (
        "version = 1\ntenants = 4\nsweep = [2, 4]\n",
        "profile mine.toml:3: key `sweep`: 4 tenants (accepted: rising numbers from 2 to 3, below \
         tenants)",
    ),
    (
        "version = 1\n[bursts]\nrequests = 5.0\npeak = 1.0\n",
        "profile mine.toml:4: key `bursts.peak`: 1 is no peak (accepted: above 1 and at most 1000)",
    ),
    (
        "version = 1\n[user-victim]\ncommand = \"  \"\n",
        "profile mine.toml:3: key `user-victim.command`: no command (accepted: a shell command; \"\" \
         for no program of one's own)",
    ),
    (
        "version = 1\n[user-victim]\nready = \"999ms\"\n",
        "profile mine.toml:3: key `user-victim.ready`: 999ms is too little (accepted: 1s to 1h)",
    ),
    (
        "version = 1\nmechanisms = \"mps\"\n",
        "profile mine.toml:2: key `mechanisms`: invalid value: string \"mps\" (accepted: \
         \"all\" or a list of names)",
    ),
    (
        "version = 1\nmechanisms = [\"mpx\"]\n",
        "profile mine.toml:2: key `mechanisms`: unknown mechanism \"mpx\" (accepted: \
         exclusive, exclusive-process, time-slicing, mps, mps-quota, mps-static, mps-memory, \
         mig, mig-mps, hami, green-context, stream-priority)",
    ),
    (
        "version = 1\naxes = []\n",
        "profile mine.toml:2: key `axes`: an empty list (accepted: \"all\", memory, \
         compute, bandwidth, jitter, power, compute/sm, compute/issue, compute/launch, \
         compute/driver, bandwidth/dram, bandwidth/l2, bandwidth/pcie, memory/capacity, \
         power/power)",
    ),
    (
        "version = 1\n[cell]\nopen = \"2 seconds\"\n",
        "profile mine.toml:3: key `cell.open`: invalid value: string \"2 seconds\" \
         (accepted: a duration with its unit, such as \"20us\", \"250ms\", \"1.5s\" or \
         \"10min\")",
    ),
    (
        "version = 1\nservice = 1000\n",
        "profile mine.toml:2: key `service`: invalid type: integer `1000` (accepted: a \
         duration with its unit, such as \"20us\", \"250ms\", \"1.5s\" or \"10min\")",
    ),
    (
        "version = 1\nshare = \"8/7\"\n",
        "profile mine.toml:2: key `share`: invalid value: string \"8/7\" (accepted: a number \
         above 0 and at most 1, or a quotient such as \"3/7\")",
    ),
    (
        "version = 1\nseed = -1\n",
        "profile mine.toml:2: key `seed`: invalid value: integer `-1` (accepted: a whole \
         number, not negative)",
    ),
    (
        "version = 1\ndecides = \"no\"\n",
        "profile mine.toml:2: key `decides`: invalid type: string \"no\" (accepted: true or \
         false)",
    ),
    (
        "version = 1\nblocks = 8\n",
        "profile mine.toml:2: key `blocks`: invalid type: integer `8` (accepted: a table)",
    ),
    (
        "version = 1\n[blocks]\nmin = 6\n",
        "profile mine.toml:3: key `blocks.min`: 6 blocks (accepted: 8 to 1000, or 6 and more \
         with decides = false)",
    ),
    (
        "version = 1\nblocks = { min = 12, max = 9 }\n",
        "profile mine.toml:2: key `blocks.max`: 9 blocks (accepted: 12 (blocks.min) \
         to 1000)",
    ),
    (
        "version = 1\ndoses = [0.5, 1.0, 0.25]\n",
        "profile mine.toml:2: key `doses`: not in rising order (accepted: each dose once, \
         smallest first)",
    ),
    (
        "version = 1\ndoses = [0.5]\n",
        "profile mine.toml:2: key `doses`: 1.0 is missing (accepted: a list that ends in 1.0, \
         where scores are taken)",
    ),
    (
        "version = 1\ntenants = 1\n",
        "profile mine.toml:2: key `tenants`: 1 is too little (accepted: 2 to 48)",
    ),
    (
        "version = 1\n[cell]\nclosed = \"100ms\"\n",
        "profile mine.toml:3: key `cell.closed`: 100ms is too little (accepted: 125ms to 1h)",
    ),
    (
        "version = 1\n[thresholds]\nretention_l3 = 0.7\n",
        "profile mine.toml:3: key `thresholds.retention_l3`: 0.7 is too low (accepted: a \
         number above thresholds.retention_l2, which is 0.8)",
    ),
    (
        "version = 1\n[time-slicing]\nslice = \"tiny\"\n",
        "profile mine.toml:3: key `time-slicing.slice`: unknown variant `tiny` (accepted: \
         default, short, medium, long)",
    ),
];

#[test]
fn a_wrong_profile_names_the_line_and_what_is_accepted() {
    let mut wrong = Vec::new();
    for (text, line) in WRONG {
        let reported = message(text);
        if reported != *line {
            wrong.push(format!("{text}\nsaid   {reported}\nwanted {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What a user may write that makes something wrong which they did not: the line and the key at
/// fault, and the key of the default that it does not go with.
const WRONG_BESIDE: &[(&str, usize, &str, &str)] = &[
    ("service = \"20ms\"", 3, "service", "cell_min.closed"),
    (
        "service = \"500ms\"\ncell_min.closed = \"20s\"\ncell.closed = \"20s\"",
        3,
        "service",
        "cell_min.open",
    ),
    (
        "[cell_min]\nclosed = \"10s\"",
        4,
        "cell_min.closed",
        "cell.closed",
    ),
    (
        "[cell_min]\n\nopen = \"10s\"",
        5,
        "cell_min.open",
        "cell.open",
    ),
    ("blocks.min = 12", 3, "blocks.min", "blocks.max"),
    (
        "[thresholds]\nretention_l2 = 0.97",
        4,
        "thresholds.retention_l2",
        "thresholds.retention_l3",
    ),
    (
        "[thresholds]\njitter_negligible = 2.0",
        4,
        "thresholds.jitter_negligible",
        "thresholds.jitter_low_medium",
    ),
];

#[test]
fn a_default_that_becomes_wrong_is_reported_at_the_user_s_own_key() {
    let default = DEFAULT.text;
    for (text, line, key, beside) in WRONG_BESIDE {
        let reported = message(&format!("version = 1\n\n{text}\n"));
        let begins = format!(
            "profile mine.toml:{line}: key `{key}`: it does not go with `{beside}` \
             (built-in default:"
        );
        let rest = reported.strip_prefix(&begins).unwrap_or_default();
        let number = rest
            .split(')')
            .next()
            .and_then(|number| number.parse::<usize>().ok());
        let there = number.and_then(|number| default.lines().nth(number.saturating_sub(1)));
        let last = beside.rsplit('.').next().unwrap_or_default();
        assert!(
            there.is_some_and(|there| there.starts_with(last)),
            "{text}: {reported}"
        );
        assert!(
            reported.contains(&format!("(accepted: another {key}, or for {beside}: ")),
            "{text}: {reported}"
        );
    }
    // Where the user wrote both, the message is about the bound one.
    let both = message("version = 1\nservice = \"20ms\"\n[cell_min]\nclosed = \"200ms\"\n");
    assert!(
        both.starts_with("profile mine.toml:4: key `cell_min.closed`: 200ms is too little"),
        "{both}"
    );
}

#[test]
fn a_flag_that_conflicts_with_the_file_is_reported_with_the_file_s_line() {
    let text = "version = 1\ntenants = 3\nneighbours = [\"aggressor\", \"peer\"]\n";
    let flags = Overrides {
        victim_cmd: Some("serve".to_owned()),
        ..Overrides::default()
    };
    let reported = match parse("mine.toml", text, &flags) {
        Ok(_) => String::new(),
        Err(error) => crate::error::ExpectedError::from(error).to_string(),
    };
    let begins = "profile the command line: key `user-victim.command`: it does not go with \
                  `neighbours` (mine.toml:3): a program of one's own has no peers (accepted: ";
    assert!(reported.starts_with(begins), "{reported}");
}

#[test]
fn a_text_that_is_not_toml_is_reported_with_its_line() {
    let text = message("version = 1\nseed = \n");
    assert!(
        text.starts_with("profile mine.toml:2: not TOML: "),
        "{text}"
    );
    assert!(!text.contains('\n'), "{text}");
    let twice = message("version = 1\nseed = 1\nseed = 2\n");
    assert!(
        twice.starts_with("profile mine.toml:3: not TOML: "),
        "{twice}"
    );
}

/// A default profile with one stretch of characters replaced by another text.
fn broken(start: usize, length: usize, put: &str) -> String {
    let characters: Vec<char> = DEFAULT.text.chars().collect();
    let start = start % characters.len();
    let end = (start + length).min(characters.len());
    let (before, after) = (&characters[..start], &characters[end..]);
    before
        .iter()
        .chain(&put.chars().collect::<Vec<_>>())
        .chain(after)
        .collect()
}

const PUT: &[&str] = &[
    "",
    "=",
    "\"",
    "[",
    "x",
    "-1",
    "1e9",
    "\n",
    "9999999999",
    "é",
];

proptest! {
    #[test]
    fn every_text_is_accepted_or_reported_in_one_line_of_the_file(
        start in any::<usize>(),
        length in 0_usize..12,
        put in prop::sample::select(PUT),
    ) {
        let text = broken(start, length, put);
        if let Err(error) = parse("mine.toml", &text, &Overrides::default()) {
            let line = error.line;
            prop_assert!(line.is_none_or(|line| (1..=text.lines().count() + 1).contains(&line)));
            let reported = ExpectedError::from(error).to_string();
            let is_one_line = reported.starts_with("profile ") && !reported.contains('\n');
            prop_assert!(is_one_line, "{}", reported);
        }
    }
}
