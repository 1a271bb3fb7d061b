//! Requests that fail or never end.

use super::*;

#[test]
fn requests_that_outlast_the_drain_are_logged_as_unfinished() -> Checked {
    // The third takes 3 s: longer than the drain, shorter than the wait for an idle device after
    // it.
    let script = Script { service_ns: |n| if n == 2 { 3_000 * MS } else { MS }, ..Script::PLAIN };
    let arrivals = vec![MS, 2 * MS, 3 * MS, 4 * MS, 5 * MS];
    let played = play_with(open_only(8), arrivals, script, 8)?;
    let status: Vec<_> = played.rows.iter().map(|row| row.status).collect();
    use SampleStatus::{Ok as Fine, Unfinished};
    assert_eq!(status, [Fine, Fine, Unfinished, Unfinished, Unfinished]);
    assert!(played.rows[2..].iter().all(|row| row.t_done_ns == MISSING && row.gpu_ns == MISSING));
    assert_eq!((played.outcome.unfinished, played.outcome.stuck), (3, false));
    Ok(())
}

#[test]
fn a_request_that_never_ends_leaves_the_tenant_stuck() -> Checked {
    let script = Script { service_ns: |n| if n == 1 { NEVER_NS } else { MS }, ..Script::PLAIN };
    let played = play_with(open_only(8), vec![MS, 2 * MS], script, 8)?;
    assert_eq!(played.rows.len(), 2);
    assert_eq!(played.rows[1].status, SampleStatus::Unfinished);
    assert_eq!((played.outcome.unfinished, played.outcome.stuck), (1, true));
    Ok(())
}

#[test]
fn a_temporary_error_is_a_row_and_a_final_one_ends_the_run() -> Checked {
    let script = Script { refused: |n| (n == 1).then_some(2), ..Script::PLAIN };
    let played = play_with(open_only(8), vec![MS, 3 * MS, 5 * MS], script, 8)?;
    let ended: Vec<_> = played.rows.iter().map(|row| (row.status, row.error)).collect();
    use SampleStatus::{Error, Ok as Fine};
    assert_eq!(ended, [(Fine, 0), (Error, 2), (Fine, 0)]);
    assert_eq!(played.rows[1].t_done_ns, MISSING);
    assert_eq!(played.outcome.failure, None);

    let script = Script { ends_badly: |n| (n >= 1).then_some(700), ..Script::PLAIN };
    let played = play_with(open_only(8), vec![MS, 3 * MS, 5 * MS, 7 * MS], script, 8)?;
    assert_eq!(played.submitted, 2, "nothing is issued after a final error");
    assert_eq!((played.rows[1].status, played.rows[1].error), (Error, 700));
    assert_eq!(played.rows[1].t_done_ns, 34 * MS + 5_000, "the instant of the error");
    assert_eq!(played.outcome.failure.and_then(|failure| failure.code), Some(700));
    Ok(())
}

#[test]
fn repeated_errors_end_the_closed_loop() -> Checked {
    let script = Script { refused: |_| Some(2), ..Script::PLAIN };
    let played = play_with(victim(8), vec![MS], script, 8)?;
    assert_eq!(played.rows.len() as u32, ERRORS_IN_A_ROW_MAX);
    assert_eq!(played.outcome.failure.and_then(|failure| failure.code), Some(2));
    Ok(())
}
