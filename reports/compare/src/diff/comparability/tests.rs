//! Each class of fact, and facts that several sessions have.

use std::collections::BTreeMap;

use gpubench_record::DeviceKind;

use super::*;

fn side(facts: &[&[(&str, &str)]]) -> Vec<Session> {
    let session = |facts: &&[(&str, &str)]| Session {
        name: String::new(),
        started_at: String::new(),
        kind: DeviceKind::Real,
        facts: facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        labels: BTreeMap::new(),
        margins: None,
        levels: BTreeMap::from([("sm_clock_mhz".to_owned(), 1980.0)]),
        rows: BTreeMap::new(),
        doubts: Vec::new(),
        repeats: BTreeMap::new(),
        work: BTreeMap::new(),
        losses: Vec::new(),
        is_doubtful: false,
    };
    facts.iter().map(session).collect()
}

fn treatments(one: &[Session], two: &[Session], vary: &[&str]) -> Vec<(String, Treatment)> {
    let vary: Vec<String> = vary.iter().map(|name| (*name).to_owned()).collect();
    let found = differences(one, two, &vary, false);
    found.into_iter().map(|one| (one.fact, one.treatment)).collect()
}

#[test]
fn each_class_of_fact_has_its_treatment() {
    use Treatment::{Confounds, Noted, Refused, Varied};
    let base: &[(&str, &str)] = &[("driver", "1"), ("cuda", "12"), ("uuid", "a")];
    for (other, vary, expected) in [
        (&[("driver", "2")][..], &[][..], &[("driver", Refused)][..]),
        (&[("driver", "2"), ("cuda", "13")], &["driver"], &[("driver", Varied), ("cuda", Varied)]),
        (&[("cuda", "13")], &["kernel"], &[("cuda", Refused)]),
        (&[("uuid", "b")], &[], &[("uuid", Confounds)]),
        (&[("hostname", "h")], &[], &[("hostname", Noted)]),
        (&[("pci-id", "p")], &[], &[("pci-id", Confounds)]),
    ] {
        let mut facts: BTreeMap<&str, &str> = base.iter().copied().collect();
        facts.extend(other.iter().copied());
        let facts: Vec<_> = facts.into_iter().collect();
        let found = treatments(&side(&[base]), &side(&[&facts]), vary);
        let expected: Vec<_> =
            expected.iter().map(|(name, treatment)| ((*name).to_owned(), *treatment)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn seeds_may_differ_within_a_side_and_calibrations_may_not() {
    let seeds = side(&[&[("profile", "s1")], &[("profile", "s2")]]);
    assert!(treatments(&seeds, &seeds, &[]).is_empty());
    let calibrations = side(&[&[("calibration", "c1")], &[("calibration", "c2")]]);
    let found = treatments(&calibrations, &calibrations, &[]);
    assert_eq!(found, [("calibration".to_owned(), Treatment::Refused)]);
    let drivers = side(&[&[("driver", "1")], &[("driver", "2")]]);
    let found = treatments(&drivers, &side(&[&[("driver", "3")]]), &["driver"]);
    assert_eq!(found, [("driver".to_owned(), Treatment::Confounds)]);
}

#[test]
fn layouts_of_shared_variants_and_moved_clocks_count() {
    let layout = |value| side(&[&[("layout mig", value)]]);
    let found = treatments(&layout("3g"), &layout("4g"), &[]);
    assert_eq!(found, [("layout mig".to_owned(), Treatment::Refused)]);
    assert!(treatments(&layout("3g"), &side(&[&[]]), &[]).is_empty());
    let mut slower = side(&[&[]]);
    slower[0].levels.insert("sm_clock_mhz".to_owned(), 1900.0);
    let found = treatments(&side(&[&[]]), &slower, &[]);
    assert_eq!(found, [("sm_clock_mhz".to_owned(), Treatment::Confounds)]);
}

#[test]
fn the_kind_of_device_cannot_be_varied() {
    assert!(!is_known("device"));
    assert!(is_known("driver"));
    assert!(known().all(is_known));
}
