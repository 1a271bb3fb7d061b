//! Latencies of a record: from the sample logs, the latency log, or the samples.

use super::crashed_run;
use crate::store::{LATENCIES_FILE, Record, SAMPLES_FILE, StoreError, finish};

#[test]
fn latencies_are_the_same_from_the_log_and_from_the_samples() {
    let dir = crashed_run();
    let of_victim = || {
        let record = Record::open(dir.path()).unwrap();
        record.latencies("b00-c000", "victim").unwrap()
    };
    let from_sample_logs = of_victim();
    assert_eq!(from_sample_logs.count(), 200);
    finish(dir.path()).unwrap();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let (samples, latencies) = (read(SAMPLES_FILE), read(LATENCIES_FILE));
    std::fs::remove_file(dir.path().join(SAMPLES_FILE)).unwrap();
    assert_eq!(of_victim(), from_sample_logs);
    std::fs::remove_file(dir.path().join(LATENCIES_FILE)).unwrap();
    assert!(!Record::open(dir.path()).unwrap().has_latencies());
    std::fs::write(dir.path().join(SAMPLES_FILE), samples).unwrap();
    assert_eq!(of_victim(), from_sample_logs);
    // Damage is an error, although the samples are intact.
    std::fs::write(dir.path().join(LATENCIES_FILE), &latencies[1..]).unwrap();
    let record = Record::open(dir.path()).unwrap();
    let error = record.latencies("b00-c000", "victim").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
