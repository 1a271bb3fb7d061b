//! Loading: built-in profiles, files, and flags over them.

use gpubench_record::user_victim::Reports;

use super::super::built_in::{self, DEFAULT};
use super::super::{Overrides, Profile, ProfileError, Span, Wanted, load, parse};
use crate::error::ExpectedError;

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[test]
fn the_default_sets_every_key() -> TestResult {
    let bare: Profile = toml::from_str(DEFAULT.text)?;
    let laid = load(DEFAULT.name, &Overrides::default())?;
    assert_eq!(Profile { name: laid.name.clone(), ..bare }, laid);
    assert_eq!(laid.thresholds, gpubench_record::Thresholds::default());
    assert_eq!(laid.margins, gpubench_record::Margins::default());
    Ok(())
}

#[test]
fn every_built_in_profile_is_accepted_and_has_a_summary() -> TestResult {
    for built_in in built_in::CATALOGUE {
        let profile = load(built_in.name, &Overrides::default())?;
        assert_eq!(profile.name, built_in.name);
        assert!(built_in.text.contains("\nsummary = "), "{}: a summary of its own", built_in.name);
        // Victims can be calibrated to these lengths.
        let [shortest_ns, longest_ns] = gpubench_workloads::load::LENGTHS_NS;
        assert!(
            (shortest_ns..=longest_ns).contains(&profile.service.ns),
            "{}: {}",
            built_in.name,
            profile.service
        );
    }
    Ok(())
}

#[test]
fn a_file_is_found_by_its_path_and_named_after_it() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("nights.toml");
    std::fs::write(&path, "version = 1\nseed = 9\n")?;
    let profile = load(&path.to_string_lossy(), &Overrides::default())?;
    assert_eq!((profile.name.as_str(), profile.seed), ("nights", 9));
    std::fs::write(&path, [0xff, 0xfe])?;
    let garbage = load(&path.to_string_lossy(), &Overrides::default());
    assert!(matches!(garbage, Err(ExpectedError::Unreadable { .. })));
    let missing = load("no/such.toml", &Overrides::default());
    assert!(matches!(missing, Err(ExpectedError::Unreadable { .. })));
    let unknown = load("nightly-x", &Overrides::default()).map_err(|error| error.to_string());
    let line = "unknown profile \"nightly-x\" (known: default, smoke, nightly, weekly, \
                online-inference, notebooks, batch-training, student-lab, saas-hostile, \
                oversubscription, scaling, claims, or the path of a \
                .toml file)";
    assert_eq!(unknown, Err(line.to_owned()));
    Ok(())
}

#[test]
fn the_command_line_replaces_settings_and_is_checked() -> Result<(), ExpectedError> {
    let overrides = Overrides {
        seed: Some(u64::MAX),
        mechanisms: vec!["exclusive".to_owned()],
        axes: vec!["jitter".to_owned()],
        ..Overrides::default()
    };
    let profile = load("smoke", &overrides)?;
    assert_eq!(profile.seed, u64::MAX);
    assert_eq!(profile.mechanisms, Wanted::Names(vec!["exclusive".to_owned()]));
    let overrides = Overrides { axes: vec!["warmth".to_owned()], ..Overrides::default() };
    let Err(ProfileError { file, line, .. }) = parse("mine.toml", "version = 1", &overrides) else {
        return Err(ExpectedError::Internal { what: "an unknown axis was accepted".to_owned() });
    };
    assert_eq!((file.as_str(), line), ("the command line", None));
    Ok(())
}

#[test]
fn flags_for_a_program_need_a_program() -> Result<(), ExpectedError> {
    let lines = |command: Option<&str>| Overrides {
        victim_cmd: command.map(str::to_owned),
        victim_reports: Some(Reports::Lines),
        ..Overrides::default()
    };
    let refused = parse("mine.toml", "version = 1", &lines(None)).map_err(ExpectedError::from);
    let wanted = "profile the command line: key `user-victim.reports`: there is no program that \
                  reports its work (accepted: --victim-cmd beside it)";
    assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(wanted));
    let waits = Overrides { victim_ready: Some(Span::from_s(90)), ..Overrides::default() };
    let refused = parse("mine.toml", "version = 1", &waits).map_err(ExpectedError::from);
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
