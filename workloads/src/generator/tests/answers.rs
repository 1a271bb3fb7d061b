//! Driver errors that answer a request.

use gpubench_record::{LoadSpec, Phase, SampleStatus};

use super::super::fake::FakeClock;
use super::super::fake_device::Script;
use super::{Checked, of, play_answering, victim};

#[test]
fn errors_that_answer_end_nothing_and_do_not_fill_the_log() -> Checked {
    let script = Script { refused: |_| Some(2), ..Script::PLAIN };
    let clock = || FakeClock::new(2, |_| 0);
    let arrivals = || (0..40).map(|n| n * 100_000).collect::<Vec<_>>();
    let played = play_answering(clock(), victim(8), arrivals(), script, 8, &[2])?;
    assert_eq!(played.outcome.failure, None);
    let open = of(&played.rows, Phase::Open);
    assert_eq!(open.len(), 40, "every arrival was issued");
    let closed = of(&played.rows, Phase::Closed);
    let LoadSpec::Victim { rate_per_s, .. } = victim(8) else {
        return Err("a victim".into());
    };
    let gap_ns = (1e9 / rate_per_s) as u64;
    assert!(closed.len() > 1, "it continues");
    assert!(closed.windows(2).all(|pair| pair[1].t_issue_ns >= pair[0].t_ret_ns + gap_ns));
    assert!(played.rows.iter().all(|row| (row.status, row.error) == (SampleStatus::Error, 2)));
    // Any other error ends the loop.
    let played = play_answering(clock(), victim(8), arrivals(), script, 8, &[3])?;
    assert_eq!(played.outcome.failure.and_then(|failure| failure.code), Some(2));
    Ok(())
}
