//! What reports say of the axes: faults in one row, what was not asked for, what a level rests on.

use gpubench_record::{FaultTally, Outcome, RunRecord, Skip};

use super::{RenderOptions, render};
use crate::sample_records;

/// A record in which each fault of one mechanism has that many contained trials of one.
fn with_faults(contained: &[u32]) -> RunRecord {
    let mut record = sample_records::real();
    let row = record.matrix.iter().find(|row| row.axis == "fault").cloned();
    let row = row.expect("a fault row");
    record.matrix.retain(|row| row.axis != "fault");
    let mut tally = record.fault_tallies.remove(0);
    record.fault_tallies = contained
        .iter()
        .enumerate()
        .map(|(number, &contained)| {
            let mut own = row.clone();
            tally.fault = format!("fault-{number}");
            own.aggressor = Some(tally.fault.clone());
            (own.level, own.word) = (Some("L1..L3".to_owned()), None);
            own.outcome = Outcome::inconclusive("L1..L3");
            if contained == 0 {
                own.level = Some("L0".to_owned());
                own.outcome = Outcome::measured();
            }
            record.matrix.push(own);
            FaultTally {
                trials: 1,
                contained,
                more_for_l2: (contained == 1).then_some(13),
                ..tally.clone()
            }
        })
        .collect();
    record
}

fn wide(record: &RunRecord) -> String {
    render("md", record, &RenderOptions::default())
}

#[test]
fn the_faults_of_a_mechanism_share_a_row_with_a_level_only_where_one_is_refuted() {
    for (contained, cells, note) in [
        (
            &[1, 0, 1][..],
            "fault<br>2/3 held, 1 trial each | L1<br>Partial",
            "a victim was harmed by: fault-1",
        ),
        (
            &[1, 1],
            "fault<br>2/2 held, 1 trial each | -",
            "no victim was harmed; 13 more trials of each fault would show L2",
        ),
        (
            &[0, 0],
            "fault<br>0/2 held, 1 trial each | L0",
            "a victim was harmed by: fault-0, fault-1",
        ),
    ] {
        let text = wide(&with_faults(contained));
        assert!(text.contains(cells), "{contained:?}: {text}");
        assert!(text.contains(note), "{contained:?}: {text}");
        assert_eq!(text.matches(" held, 1 trial each").count(), 1, "{text}");
    }
}

#[test]
fn what_was_not_asked_for_is_one_sentence_with_its_flag() {
    const FAULTS: &str = "NOT ASKED FOR: the fault axis; --faults injects faults";
    const MIG: &str = "NOT ASKED FOR: mig, mig-mps; --allow-reconfigure lets the run change device";
    let mut record = sample_records::real();
    assert!(!wide(&record).contains(FAULTS), "it has trials");
    record.fault_tallies.clear();
    record.plan.skips = ["mig", "mig-mps"]
        .map(|name| Skip {
            name: name.to_owned(),
            variant: name.to_owned(),
            axis: None,
            reason: "it would change device settings (MIG mode)".to_owned(),
            remedy: Some("--allow-reconfigure".to_owned()),
        })
        .into();
    for text in [FAULTS, MIG] {
        assert!(wide(&record).contains(text), "{text}: {}", wide(&record));
    }
    record.plan.axes = vec!["compute".to_owned()];
    assert!(!wide(&record).contains(FAULTS), "the profile leaves the axis out");
}

#[test]
fn an_overall_level_names_the_axes_that_it_rests_on() {
    let text = wide(&sample_records::real());
    assert!(text.contains("| L0 | compute | compute, jitter | "), "{text}");
}
