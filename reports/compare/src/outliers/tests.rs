//! Simulated fleets.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use gpubench_stats::ScheduleRng;

use super::report::Peers;
use super::*;
use crate::session::{Row, Series, Work};

fn normal(rng: &mut ScheduleRng) -> f64 {
    (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
}

const ROWS: usize = 8;
const MARGIN: f64 = 0.01;

/// Fleets with an alarm: each of these rows and devices, one device sick in the first row.
fn alarms(fleets: u32, devices: usize, spread: f64, sick: f64, seed: u64) -> [u32; 2] {
    let alpha = ALPHA / (devices * ROWS) as f64;
    let mut rng = ScheduleRng::new(seed);
    let (mut found, mut false_alarms) = (0, 0);
    for _ in 0..fleets {
        let mut is_false = false;
        for row in 0..ROWS {
            let mut logs: Vec<f64> = (0..devices).map(|_| spread * normal(&mut rng)).collect();
            if row == 0 {
                logs[0] += (1.0 - sick).ln();
            }
            let peers = Peers::of(&logs, alpha).unwrap();
            for (at, log) in logs.iter().enumerate() {
                let peers = peers.without(&logs, at, alpha).unwrap();
                let differs = peers.differs(*log, MARGIN);
                match (at, row) {
                    (0, 0) if sick > 0.0 => found += u32::from(differs),
                    _ => is_false |= differs,
                }
            }
        }
        false_alarms += u32::from(is_false);
    }
    [found, false_alarms]
}

/// `GPUBENCH_FLEETS`: `bash ci/long.sh fleets` simulates 1,000 of the large fleets and reads the
/// table; every change simulates fewer.
fn large_fleets() -> Option<u32> {
    let text = std::env::var("GPUBENCH_FLEETS").ok()?;
    Some(text.parse().unwrap())
}

/// A line of the table, on standard output where `GPUBENCH_FLEETS` is set.
fn show(line: &str) {
    if large_fleets().is_some() {
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

#[test]
fn healthy_fleets_are_quiet_and_a_sick_device_is_found() {
    show("\ndevices  spread  fleets  found, sick by 4 %  healthy with an alarm\n");
    for (fleets, devices) in [(1000, 40), (large_fleets().unwrap_or(100), 1000)] {
        for spread in [0.005, 0.01, 0.02] {
            let [_, alarmed] = alarms(fleets, devices, spread, 0.0, 1);
            let [found, _] = alarms(fleets, devices, spread, 0.04, 2);
            let [alarmed, found] =
                [alarmed, found].map(|count| 100.0 * f64::from(count) / f64::from(fleets));
            let percent = 100.0 * spread;
            show(&format!(
                "{devices:7} {percent:5.1} % {fleets:7} {found:17.1} % {alarmed:19.1} %\n"
            ));
            assert!(alarmed < 5.0, "{alarmed} % of {devices} devices at {spread}");
            // A wider spread hides a device that is sick by 4 %.
            let is_found = spread > 0.005 || found >= 95.0;
            assert!(is_found, "{found} % of {devices} devices at {spread}");
        }
    }
    // Few peers know little of their spread: no false alarms, and only a very sick device is found.
    for devices in [5, 10] {
        let [_, quiet] = alarms(1000, devices, 0.01, 0.0, 3);
        assert!(quiet < 50, "{quiet} of 1000 with {devices}");
        let [found, _] = alarms(1000, devices, 0.005, 0.18, 4);
        assert!(found >= 950, "{found} of 1000 with {devices}");
    }
}

#[test]
fn the_printed_deviation_is_found_in_four_of_five() {
    for (devices, spread) in [(1000, 0.01), (1000, 0.02)] {
        let mut rng = ScheduleRng::new(4);
        let logs: Vec<f64> = (0..devices).map(|_| spread * normal(&mut rng)).collect();
        let peers = Peers::of(&logs, ALPHA / (devices * ROWS) as f64).unwrap();
        let sick = 1.0 - (-peers.detectable(MARGIN)).exp();
        let [found, _] = alarms(200, devices, spread, sick, 5);
        let power = f64::from(found) / 200.0;
        assert!((power - 0.8).abs() < 0.12, "{power} for {sick} at {spread}");
    }
}

fn session(device: usize, slow: f64, rng: &mut ScheduleRng) -> Session {
    let key = |metric| RowKey {
        variant: "exclusive".to_owned(),
        axis: "bandwidth/dram".to_owned(),
        victim: "stream".to_owned(),
        aggressor: None,
        dose: None,
        metric,
    };
    let row = |centre: f64| Row::Measured(Series { blocks: vec![centre], ..Series::default() });
    let work = Work { amount: 1e6, unit: "bytes".to_owned() };
    let rate = 1000.0_f64.ln() + slow + 0.005 * normal(rng);
    Session {
        facts: Arc::new(
            [("uuid", format!("GPU-{device}")), ("driver", "1".to_owned())]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        ),
        labels: BTreeMap::from([("node".to_owned(), format!("node{}", device / 2))]),
        rows: [
            (key(Metric::NativeRate).into(), row(rate)),
            (key(Metric::Retention).into(), row(0.005 * normal(rng))),
            (key(Metric::P99).into(), row(100.0 * normal(rng))),
        ]
        .into(),
        work: BTreeMap::from([("stream".to_owned(), work)]),
        ..Session::empty(&format!("n{device}"))
    }
}

fn fleet(slow: impl Fn(usize) -> f64) -> Vec<Session> {
    let mut rng = ScheduleRng::new(6);
    (0..40).map(|n| session(n, slow(n), &mut rng)).collect()
}

#[test]
fn the_sick_device_of_forty_is_named() {
    let sessions = fleet(|n| if n == 17 { -0.04 } else { 0.0 });
    let found = outliers(&sessions, Vec::new(), &Options::default()).unwrap();
    assert_eq!((found.groups.len(), found.comparisons, found.exit), (1, 80, 30));
    let [sick] = found.groups[0].outliers.as_slice() else {
        panic!("{:?}", found.groups[0].outliers);
    };
    assert_eq!((sick.device.as_str(), sick.worse), ("GPU-17", true));
    assert_eq!(sick.unit, "bytes/s");
    assert!((sick.median / 1e9 - 1.0).abs() < 0.01, "{}", sick.median);
    assert!((sick.deviation + 0.04).abs() < 0.01, "{}", sick.deviation);
    let healthy = outliers(&fleet(|_| 0.0), Vec::new(), &Options::default()).unwrap();
    assert_eq!(healthy.exit, 0);
    // By a label, where both devices of a node are one.
    let by = Options { by: "node".to_owned(), ..Options::default() };
    let sessions = fleet(|n| if n / 2 == 8 { -0.05 } else { 0.0 });
    let found = outliers(&sessions, Vec::new(), &by).unwrap();
    assert_eq!(found.groups[0].devices, 20);
    assert_eq!(found.groups[0].outliers[0].device, "node8");
    assert_eq!(found.groups[0].outliers[0].sessions, ["n16", "n17"]);
}

#[test]
fn other_drivers_are_no_peers_and_few_peers_decide_nothing() {
    let mut sessions = fleet(|n| if n < 4 { -0.2 } else { 0.0 });
    for session in &mut sessions[..4] {
        Arc::make_mut(&mut session.facts).insert("driver".to_owned(), "2".to_owned());
    }
    let found = outliers(&sessions, Vec::new(), &Options::default()).unwrap();
    let devices: Vec<u32> = found.groups.iter().map(|group| group.devices).collect();
    assert_eq!((devices.as_slice(), found.exit), (&[36, 4][..], 0));
    assert!(found.groups[1].rows.is_empty());
    let few = outliers(&sessions[..4], Vec::new(), &Options::default()).unwrap();
    assert_eq!(few.exit, 10);
    let by = Options { by: "rack".to_owned(), ..Options::default() };
    let unnamed = outliers(&sessions, Vec::new(), &by).unwrap();
    assert_eq!((unnamed.lost.len(), unnamed.exit), (40, 10));
}
