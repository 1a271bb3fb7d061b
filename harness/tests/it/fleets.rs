//! Labels of runs, baselines and removal of nights, and the outlier of a fleet, by the command
//! line. One run is measured; the other records are copies of it with facts and rates of their own.

use gpubench_compare::diff::Report;
use gpubench_compare::outliers;
use gpubench_record::Condition;

use crate::support::nights::{Nights, scale};
use crate::support::{Error, TestResult};

#[test]
fn labels_baselines_old_nights_and_outliers_work_from_end_to_end() -> TestResult {
    let nights = Nights::new()?;
    let labels: Vec<(&str, &str)> = nights
        .run
        .provenance
        .labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(labels, [("cluster", "a"), ("node", "n0"), ("pool", "b")]);
    assert_eq!(nights.run.plan.margins, Some(Default::default()));
    baselines(&nights)?;
    fleet(&nights)
}

fn baselines(nights: &Nights) -> TestResult {
    for night in 1..=12 {
        nights.copy(&format!("nights/n{night:02}"), |run| {
            run.provenance.started_at = format!("2026-01-{night:02}T00:00:00Z");
            scale(run, Condition::C, 1.0 + 0.001 * f64::from(night % 3));
            let pool = if night % 2 == 0 { "even" } else { "odd" };
            run.provenance.labels.insert("pool".to_owned(), pool.to_owned());
        })?;
    }
    nights.copy("tonight", |run| {
        run.provenance.started_at = "2026-02-01T00:00:00Z".to_owned();
        scale(run, Condition::C, 0.8);
    })?;
    let text = nights.run(&["history", "nights", "--by=pool"], 0)?.stdout;
    assert!(text.contains("pool even") && text.contains("pool odd"), "{text}");

    nights.run(&["history", "pin", "nights", "golden", "nights/absent"], 2)?;
    nights.run(&["history", "pin", "nights", "golden", "nights/n01", "nights/n02"], 0)?;
    let pins = nights.run(&["history", "pins", "nights"], 0)?.stdout;
    assert!(pins.starts_with("golden  ") && pins.ends_with("  n01 n02\n"), "{pins}");
    let against = |more: &[&str], code| -> Result<Report, Error> {
        let mut args = vec!["diff", "--against-history=nights", "--format=json"];
        args.extend(more);
        args.extend(["--", "tonight"]);
        Ok(serde_json::from_str(&nights.run(&args, code)?.stdout)?)
    };
    let all = against(&[], 30)?;
    assert_eq!(all.before.len(), 12);
    // Two sessions are too few to blame anything for a change.
    let pinned = against(&["--baseline=golden"], 10)?;
    let names: Vec<&str> = pinned.before.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["nights/n01", "nights/n02"]);
    assert_eq!(pinned.repetition.sessions, all.repetition.sessions);
    let unknown =
        nights.run(&["diff", "--against-history=nights", "--baseline=old", "--", "tonight"], 2)?;
    assert!(unknown.stderr.contains("unknown baseline \"old\" (known: golden)"));

    old_nights(nights)
}

fn old_nights(nights: &Nights) -> TestResult {
    let dry = nights.run(&["history", "prune", "nights", "--keep=9"], 0)?;
    assert!(dry.stdout.contains("would remove nights/n03"), "{}", dry.text());
    assert!(dry.stderr.contains("stays: nights/n01: a pinned baseline has it"));
    assert!(nights.lab.path("nights/n03").exists());
    nights.run(&["history", "prune", "nights", "--keep=9", "--yes"], 0)?;
    let left = std::fs::read_dir(nights.lab.path("nights"))?.flatten();
    let mut left: Vec<String> = left.map(|one| one.file_name().to_string_lossy().into()).collect();
    left.retain(|name| name.starts_with('n'));
    assert_eq!(left.len(), 11, "{left:?}");
    nights.run(&["history", "unpin", "nights", "golden"], 0)?;
    nights.run(&["history", "prune", "nights", "--before=2026-01-05T00:00:00Z", "--yes"], 0)?;
    assert!(!nights.lab.path("nights/n01").exists());
    Ok(())
}

fn fleet(nights: &Nights) -> TestResult {
    for node in 0..8 {
        nights.copy(&format!("fleet/g{node}"), |run| {
            run.device.uuid = format!("GPU-{node}");
            run.provenance.labels.insert("node".to_owned(), format!("node{node}"));
            scale(run, Condition::N, 1.0 + 0.0001 * f64::from(node));
            if node == 5 {
                scale(run, Condition::N, 0.96);
            }
        })?;
    }
    let args = ["outliers", "fleet", "--by=node", "--format=json"];
    let found = nights.run(&args, 30)?.stdout;
    let found: outliers::Report = serde_json::from_str(&found)?;
    assert!(found.has_virtual);
    let named: Vec<(&str, bool)> =
        found.groups[0].outliers.iter().map(|one| (one.device.as_str(), one.worse)).collect();
    assert!(!named.is_empty() && named.iter().all(|one| *one == ("node5", true)), "{named:?}");
    let text = nights.run(&["outliers", "fleet"], 30)?.stdout;
    assert!(text.contains("GPU-5") && text.contains("VIRTUAL GPU"), "{text}");
    let markdown = nights.run(&["outliers", "fleet", "--format=md"], 30)?.stdout;
    assert!(markdown.contains("| device | row |") && markdown.contains("| GPU-5 |"), "{markdown}");
    // Without it the others are quiet, and four are too few.
    std::fs::remove_dir_all(nights.lab.path("fleet/g5"))?;
    nights.run(&["outliers", "fleet"], 0)?;
    nights.run(&["outliers", "fleet/g0", "fleet/g1"], 10)?;
    Ok(())
}
