//! Records whose scores follow from their cells, and those whose scores do not.

use std::path::Path;

use gpubench_record::RunRecord;
use gpubench_reports::Record;

use super::{ScoredAgain, score_again};
use crate::score;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// The matrix of a real GPU, scored by today's rules.
fn real() -> Result<RunRecord, Box<dyn std::error::Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = dir.join("../reports/examples/h100_580.159.04_matrix");
    let mut run = Record::open(&dir)?.run().clone();
    super::rescore(&mut run, &[])?;
    Ok(run)
}

#[test]
fn scores_that_follow_from_their_cells_pass() -> TestResult {
    let mut run = real()?;
    assert_eq!(score_again(&mut run), ScoredAgain::default());
    Ok(())
}

#[test]
fn a_changed_row_is_named_and_has_its_own_score_again() -> TestResult {
    let whole = real()?;
    let at = whole.matrix.iter().position(|row| row.level.as_deref() == Some("L0"));
    let at = at.ok_or("no row with L0")?;
    let mut run = whole.clone();
    run.matrix[at].level = Some("L3".to_owned());
    let retention = run.matrix[at].retention.as_mut().ok_or("no retention")?;
    retention.value = 0.990;
    let found = score_again(&mut run).differences;
    assert_eq!(found.len(), 2, "{found:?}");
    let row = &whole.matrix[at];
    assert!(found[0].contains(&row.variant), "{found:?}");
    assert!(found[0].ends_with("level is L3, and L0 follows from the cells"), "{found:?}");
    assert!(found[1].contains("retention value is 0.99"), "{found:?}");
    assert_eq!(run.matrix, score_of(&whole)?);
    Ok(())
}

fn score_of(
    run: &RunRecord,
) -> Result<Vec<gpubench_record::MatrixRow>, crate::judge::record::JudgeError> {
    let mut run = run.clone();
    super::rescore(&mut run, &[])?;
    Ok(run.matrix)
}

#[test]
fn a_removed_row_is_found() -> TestResult {
    let mut run = real()?;
    let rows = run.matrix.len();
    run.matrix.pop();
    let found = score_again(&mut run).differences;
    let expected = format!("matrix has {} rows, and {rows} follow from the cells", rows - 1);
    assert_eq!(found, [expected]);
    Ok(())
}

#[test]
fn a_record_of_older_rules_is_scored_again_and_says_so() -> TestResult {
    let mut run = real()?;
    run.scoring = "scoring-v1".to_owned();
    run.matrix[0].level = None;
    let found = score_again(&mut run);
    assert!(found.differences.is_empty(), "{found:?}");
    let note = found.note.ok_or("no note")?;
    assert!(note.contains("scoring-v1") && note.contains(score::VERSION), "{note}");
    assert_eq!(run.scoring, score::VERSION);
    Ok(())
}
