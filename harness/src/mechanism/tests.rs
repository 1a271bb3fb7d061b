//! Checks of the whole catalogue of mechanisms.

use std::collections::BTreeSet;

use gpubench_record::{MechanismProperties, Sharing};

use super::{CATALOGUE, Mechanism, find};
use crate::catalogue;

#[test]
fn every_line_of_the_catalogue_names_its_mechanism() {
    let here: Vec<&str> = CATALOGUE.iter().map(|mechanism| mechanism.name()).collect();
    assert_eq!(here, catalogue::names());
}

#[test]
fn entries_have_a_summary_and_options_with_accepted_values() {
    for entry in CATALOGUE.iter().map(|mechanism| mechanism.entry()) {
        let summary = entry.summary;
        assert!(summary.len() > 20 && !summary.ends_with('.'), "{entry:?}");
        let keys: BTreeSet<&str> = entry.options.iter().map(|option| option.key).collect();
        assert_eq!(keys.len(), entry.options.len(), "{}", entry.name);
        for option in entry.options {
            assert!(!option.accepted.is_empty(), "{}.{}", entry.name, option.key);
        }
    }
}

#[test]
fn every_option_is_a_key_of_the_profile_and_every_key_is_listed() -> Result<(), serde_json::Error> {
    let schema = serde_json::to_value(schemars::schema_for!(crate::profile::Profile))?;
    for entry in CATALOGUE.iter().map(|mechanism| mechanism.entry()) {
        let table = &schema["properties"][entry.name];
        let pointer = table["$ref"].as_str().unwrap_or_default().trim_start_matches('#');
        let keys = schema.pointer(pointer).map(|table| &table["properties"]);
        let keys: BTreeSet<&str> = keys
            .filter(|_| !pointer.is_empty())
            .and_then(|keys| keys.as_object())
            .map(|keys| keys.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let listed: BTreeSet<&str> = entry.options.iter().map(|option| option.key).collect();
        assert_eq!(listed, keys, "{}", entry.name);
    }
    Ok(())
}

#[test]
fn one_mechanism_is_the_reference_and_changes_nothing() {
    let is_reference = |mechanism: &&&dyn Mechanism| mechanism.entry().properties().is_reference();
    let found: Vec<_> = CATALOGUE.iter().filter(is_reference).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name(), catalogue::REFERENCE);
    assert!(!found[0].entry().reconfigures);
}

#[test]
fn each_kind_of_sharing_has_one_unprotected_form() {
    for sharing in [Sharing::InTime, Sharing::InSpace] {
        let of_it = CATALOGUE.iter().map(|mechanism| mechanism.entry());
        let forms = of_it.filter(|entry| entry.sharing == sharing && entry.unprotected.is_some());
        assert_eq!(forms.count(), 1, "{sharing:?}");
    }
}

/// Records of format 1.0 are read with a frozen table. It must agree with the mechanisms, which
/// have not changed since.
#[test]
fn the_table_of_format_1_0_agrees_with_the_catalogue() {
    const OF_1_0: [&str; 12] = [
        "exclusive",
        "exclusive-process",
        "time-slicing",
        "mps",
        "mps-quota",
        "mps-static",
        "mps-memory",
        "mig",
        "mig-mps",
        "hami",
        "green-context",
        "stream-priority",
    ];
    for name in OF_1_0 {
        let now = find(name).map(|mechanism| mechanism.entry().properties());
        assert_eq!(now, Some(MechanismProperties::of_format_1_0(name)), "{name}");
    }
}
