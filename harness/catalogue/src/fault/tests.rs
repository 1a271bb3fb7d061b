//! Tests that walk the whole catalogue.

use std::collections::BTreeSet;

use super::{Answer, CANARY, CATALOGUE, Class, HostAct, LEFT_OUT, PLACEBO, Severity, find};
use crate::workload;

#[test]
fn entries_are_unique_and_described() {
    let names: BTreeSet<_> = CATALOGUE.iter().map(|fault| fault.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for fault in CATALOGUE.iter() {
        assert!(fault.summary.len() > 20, "{fault:?}");
        assert!(workload::find(fault.victim).is_some(), "{fault:?}");
        assert!(find(fault.name).is_some());
    }
}

#[test]
fn every_entry_names_its_resource_and_its_expected_answer() {
    for fault in CATALOGUE.iter() {
        assert!(!fault.resource.is_empty(), "{fault:?}");
        let control = fault.class == Class::Control;
        assert_eq!(fault.severity == Severity::Control, control, "{fault:?}");
        let service = fault.class == Class::Service;
        assert_eq!(fault.severity == Severity::Systemic, service, "{fault:?}");
        let kills_it = fault.act == HostAct::KillHelper;
        assert_eq!(fault.has_helper, kills_it, "{fault:?}");
        // An error that ends a context is returned by some call.
        let documented = matches!(fault.answer, Answer::Codes(_) | Answer::Open(_));
        assert!(documented || fault.severity != Severity::Fatal, "{fault:?}");
    }
}

#[test]
fn the_controls_come_first() {
    assert_eq!((CATALOGUE[0].name, CATALOGUE[1].name), (PLACEBO, CANARY));
    assert_eq!(CATALOGUE[1].act, HostAct::KillVictim);
    let answers = CATALOGUE[..2].iter().map(|control| control.answer);
    assert!(answers.eq([Answer::Well, Answer::Open(&[])]));
}

/// Trials run in this order.
#[test]
fn trials_go_from_benign_to_severe() {
    let severities: Vec<Severity> = CATALOGUE.iter().map(|fault| fault.severity).collect();
    assert!(severities.is_sorted(), "{severities:?}");
}

#[test]
fn left_out_faults_are_described_and_are_not_in_the_catalogue() {
    for one in LEFT_OUT {
        assert!(find(one.name).is_none(), "{} is held", one.name);
        assert!(one.summary.len() > 20 && one.reason.len() > 20, "{one:?}");
    }
}
