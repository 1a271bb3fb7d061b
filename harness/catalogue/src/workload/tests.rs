//! Tests that walk the whole catalogue.

use std::collections::BTreeSet;

use gpubench_record::{Role, SubAxis};

use super::{CATALOGUE, Workload, find};

#[test]
fn entries_are_unique_and_complete() {
    let names: BTreeSet<_> = CATALOGUE.iter().map(|workload| workload.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for workload in CATALOGUE.iter() {
        let name = workload.name;
        let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(fit), "{name}: a name fit for files");
        assert!(workload.summary.len() > 20 && !workload.summary.ends_with('.'), "{name}");
        for text in [workload.resource, workload.unit, workload.counter] {
            assert!(!text.is_empty(), "{name} leaves something unsaid");
        }
        assert!(find(name).is_some_and(|found| found.name == name));
    }
}

#[test]
fn each_sub_axis_has_its_victim_and_its_aggressor() {
    for workload in CATALOGUE.iter() {
        let other = match workload.role {
            Role::Victim => Role::Aggressor,
            Role::Aggressor => Role::Victim,
            Role::Peer | Role::Idle => panic!("{} is idle", workload.name),
        };
        // Every kernel draws power, so any victim may slow when the budget is exhausted.
        if workload.sub_axis == SubAxis::Power {
            continue;
        }
        let partner = |w: &&&Workload| w.role == other && w.sub_axis == workload.sub_axis;
        assert!(CATALOGUE.iter().any(|w| partner(&w)), "{} has no partner", workload.name);
    }
}
