//! The flags that `matrix --resume` refuses: those whose value differs from that of the run in the
//! folder, which decides them.

use std::ffi::OsString;
use std::path::Path;

use gpubench_plan::profile::{Profile, Wanted};

use super::common::ProfileFlags;
use super::matrix::Args;
use super::names::Names;
use super::ui::Ui;
use super::{Verb, parse};
use crate::error::ExpectedError;
use crate::verbs::Reconfigure;
use crate::verbs::resume::Interrupted;

/// A flag with its value on this command line and in the record; empty without a value, and `None`
/// in a record without the flag.
struct Fixed {
    flag: &'static str,
    given: String,
    record: Option<String>,
}

/// Refuses flags whose value is not that of the run. Equal values are accepted.
pub(super) fn check(args: &Args, run: &Interrupted) -> Result<(), ExpectedError> {
    let fixed = fixed(args, run)?;
    let Some(Fixed { flag, given, record }) =
        fixed.into_iter().find(|one| one.record.as_ref() != Some(&one.given))
    else {
        return Ok(());
    };
    let (record, accepted) = match record {
        None => (format!("was started without {flag}"), format!("no {flag}")),
        Some(value) => {
            let of_run = format!("{flag} {value}");
            let of_run = of_run.trim_end();
            (format!("has {of_run}"), format!("{of_run}, or no {flag}"))
        }
    };
    let given = format!("{flag} {given}");
    let (given, dir) = (given.trim_end(), run.dir.display());
    Err(ExpectedError::usage(
        format!("{given} differs from the run in {dir}, which {record} (accepted: {accepted})"),
        None,
    ))
}

/// What the record would have this host run or load is confirmed, by the flag or on a terminal: a
/// record can come from another person.
pub fn confirm(args: &Args, run: &Interrupted, ui: &Ui) -> Result<(), ExpectedError> {
    let victim = run.profile.user_victim.victim();
    let victim = victim.map(|_| run.profile.user_victim.command.clone());
    let library = run.options.hami_lib.as_ref().map(|path| path.display().to_string());
    let flags = &args.profile;
    for (flag, is_given, stored) in [
        ("--victim-cmd", flags.victim_cmd.is_some(), victim),
        ("--hami-lib", flags.hami_lib.is_some(), library),
    ] {
        let Some(stored) = stored.filter(|_| !is_given) else { continue };
        let text = format!("the run in {} was made with {flag} {stored}", run.dir.display());
        if !ui.is_confirmed(&format!("{text}, which goes on")) {
            let remedy = "accepted: the same flag, which confirms it";
            return Err(ExpectedError::usage(text, Some(remedy)));
        }
    }
    Ok(())
}

/// The given flags that the record fixes.
fn fixed(args: &Args, run: &Interrupted) -> Result<Vec<Fixed>, ExpectedError> {
    let (flags, of_run) = (&args.profile, &run.profile);
    let first = first_command(run);
    let mut found = Vec::new();
    let mut add = |flag, given: Option<String>, record: Option<String>| {
        found.extend(given.map(|given| Fixed { flag, given, record }));
    };
    let out = args.out.out.as_ref().map(|out| place(out));
    add("--out", out, Some(place(&run.dir)));
    if let Some(name) = &flags.profile {
        let mut given =
            ProfileFlags { profile: Some(name.clone()), ..first.profile.clone() }.load()?;
        if first.minutes.for_minutes.is_some() {
            given.device_time = of_run.device_time;
        }
        add("--profile", Some(given.name.clone()), Some(named(of_run, &given)));
    }
    let minutes = |args: &Args| args.minutes.for_minutes.map(|minutes| minutes.to_string());
    add("--for-minutes", minutes(args), minutes(&first));
    let text = ToString::to_string;
    add("--seed", flags.seed.map(|seed| seed.to_string()), Some(of_run.seed.to_string()));
    add("--rotation", flags.rotation.map(|run| run.to_string()), Some(of_run.run.to_string()));
    let given = Names::without_options(&flags.mechanism);
    add("--mechanism", names(&given), wanted(&of_run.mechanisms));
    add("--axis", names(&flags.axis), wanted(&of_run.axes));
    let victim = of_run.user_victim.victim().map(|_| &of_run.user_victim);
    add("--victim-cmd", flags.victim_cmd.clone(), victim.map(|one| one.command.clone()));
    let reports = flags.victim_reports.map(|how| how.as_str().to_owned());
    add("--victim-reports", reports, victim.map(|one| one.reports.as_str().to_owned()));
    let ready = flags.victim_ready.as_ref().map(text);
    add("--victim-ready", ready, victim.map(|one| one.ready.to_string()));
    let is = |of: bool| of.then(String::new);
    let reconfigure = run.options.reconfigure;
    add(
        "--allow-reconfigure",
        is(flags.allow_reconfigure),
        is(reconfigure == Reconfigure::Allowed),
    );
    add("--no-reconfigure", is(flags.no_reconfigure), is(reconfigure == Reconfigure::Refused));
    let shown = |path: &std::path::PathBuf| path.display().to_string();
    add("--hami-lib", flags.hami_lib.as_ref().map(shown), run.options.hami_lib.as_ref().map(shown));
    let before = first.calibration.as_ref().map(shown);
    add("--calibration", args.calibration.as_ref().map(shown), before);
    add("--recalibrate", is(args.recalibrate), is(first.recalibrate));
    for (key, value) in &args.label {
        let label = |value: &String| format!("{key}={value}");
        add("--label", Some(label(value)), run.labels.get(key).map(label));
    }
    for ((flag, given), (_, record)) in
        args.after_cells.given().into_iter().zip(first.after_cells.given())
    {
        add(flag, given, record);
    }
    Ok(found)
}

/// The command line that began the run: it has what the plan does not keep as a flag. One that this
/// version does not read has no flags.
fn first_command(run: &Interrupted) -> Args {
    let argv: Vec<OsString> = run.command().iter().map(OsString::from).collect();
    match parse(&argv).map(|cli| cli.verb) {
        Ok(Verb::Matrix(args)) => args,
        _ => Args::default(),
    }
}

/// The profile of the run as `--profile` names it, with the first key whose value is not that of
/// the given profile of the same name.
fn named(of_run: &Profile, given: &Profile) -> String {
    let table = |profile| serde_json::to_value(profile).unwrap_or_default();
    let (before, now) = (table(of_run), table(given));
    let keys = before.as_object().into_iter().flatten();
    let other = keys.filter(|(key, value)| now.get(key) != Some(value)).map(|(key, _)| key).next();
    match other {
        Some(key) if of_run.name == given.name => {
            format!("{} with another value of {key}", of_run.name)
        }
        _ => of_run.name.clone(),
    }
}

fn place(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// Names in one order, as a list of the command line; `None` for an empty list.
fn names(names: &[String]) -> Option<String> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    (!sorted.is_empty()).then(|| sorted.join(","))
}

fn wanted(wanted: &Wanted) -> Option<String> {
    match wanted {
        Wanted::All => Some("all".to_owned()),
        Wanted::Names(all) => names(all),
    }
}
