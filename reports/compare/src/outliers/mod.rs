//! Which device of many differs from its peers: one value of each device for each row, against the
//! median of all.

mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{DeviceKind, ExitCode};
use gpubench_stats::NoEstimate;
use gpubench_stats::summary::mean;

pub use report::{FORMAT, Group, Outlier, Report, RowReport};

use crate::session::{Metric, RowKey, Session};
use report::Peers;

/// Fewest devices of a group: the median deviation of fewer says little.
pub const PEERS_MIN: usize = 5;
/// Sessions of a device that count, the last ones: what broke is not hidden by what was.
const RECENT: usize = 3;
/// Error of a false alarm in all rows of all devices together: healthy fleets of any size stay
/// below 5 %, where the tails of few peers are only known in part.
const ALPHA: f64 = 0.03;

/// Facts that are equal among peers; devices that differ in one are in groups of their own.
pub const PEERS: [&str; 12] = [
    "device",
    "product",
    "memory",
    "driver",
    "profile",
    "calibration",
    "scoring",
    "gpubench",
    "clock",
    "ecc",
    "mig-mode",
    "power-limit",
];

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What a device is called by: `uuid`, `hostname`, or the name of a label.
    pub by: String,
    /// Smallest deviation from the median that counts, as a share.
    pub margin: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { by: "uuid".to_owned(), margin: 0.01 }
    }
}

/// Whether rows of it compare between devices: native work rates, and retentions.
pub const fn is_compared(metric: Metric) -> bool {
    matches!(metric, Metric::NativeRate | Metric::Retention)
}

/// Compares the devices of these sessions.
/// Fails when a figure of a session is not finite.
pub fn outliers(
    sessions: &[Session],
    lost: Vec<String>,
    options: &Options,
) -> Result<Report, NoEstimate> {
    let mut report = Report {
        outliers_format: FORMAT,
        by: options.by.clone(),
        margin: options.margin,
        alpha: ALPHA,
        comparisons: 0,
        has_virtual: sessions.iter().any(|one| one.kind == DeviceKind::Virtual),
        lost,
        groups: Vec::new(),
        exit: ExitCode::Done.code(),
    };
    let mut groups = Vec::new();
    for (facts, devices) in by_peers(sessions, options, &mut report.lost) {
        groups.push((facts, Values::of(&devices)?, devices));
    }
    let comparisons: usize = groups.iter().map(|(_, values, _)| values.comparisons()).sum();
    report.comparisons = u32::try_from(comparisons).unwrap_or(u32::MAX);
    let alpha = ALPHA / comparisons.max(1) as f64;
    for (facts, values, devices) in groups {
        report.groups.push(values.judge(facts, &devices, alpha, options.margin)?);
    }
    let found = report.groups.iter().any(|group| !group.outliers.is_empty());
    report.exit = if found {
        ExitCode::Regression
    } else if comparisons == 0 {
        ExitCode::Inconclusive
    } else {
        ExitCode::Done
    }
    .code();
    Ok(report)
}

type Facts = BTreeMap<String, String>;
type Devices<'a> = BTreeMap<&'a str, Vec<&'a Session>>;

/// Devices by the facts that peers have in common.
fn by_peers<'a>(
    sessions: &'a [Session],
    options: &Options,
    lost: &mut Vec<String>,
) -> BTreeMap<Facts, Devices<'a>> {
    let mut named: BTreeMap<&str, Vec<(Facts, &Session)>> = BTreeMap::new();
    for session in sessions {
        let name = match options.by.as_str() {
            fact @ ("uuid" | "hostname") => session.facts.get(fact),
            label => session.labels.get(label),
        };
        let Some(name) = name else {
            lost.push(format!("{}: it has no {}", session.name, options.by));
            continue;
        };
        let known = PEERS.iter().filter_map(|fact| {
            let value = session.facts.get(*fact)?;
            Some(((*fact).to_owned(), value.clone()))
        });
        named.entry(name).or_default().push((known.collect(), session));
    }
    let mut groups: BTreeMap<Facts, Devices<'_>> = BTreeMap::new();
    for (name, mut all) in named {
        all.sort_by_key(|(_, session)| &session.started_at);
        let Some((facts, _)) = all.last().cloned() else { continue };
        // A device counts once: as it is now, and not also as it was under another driver.
        let as_now = all.into_iter().rev().filter(|(of, _)| *of == facts).take(RECENT);
        let mut sessions: Vec<&Session> = as_now.map(|(_, session)| session).collect();
        sessions.reverse();
        groups.entry(facts).or_default().insert(name, sessions);
    }
    groups
}

/// The value of each device, for each row that enough devices have.
struct Values<'a>(BTreeMap<&'a RowKey, Vec<(&'a str, f64)>>);

impl<'a> Values<'a> {
    fn of(devices: &Devices<'a>) -> Result<Self, NoEstimate> {
        let mut values: BTreeMap<&RowKey, Vec<(&str, f64)>> = BTreeMap::new();
        for (name, sessions) in devices {
            let keys = sessions.iter().flat_map(|one| one.keys());
            let keys: BTreeSet<&RowKey> = keys.filter(|key| is_compared(key.metric)).collect();
            for key in keys {
                let figures = sessions.iter().filter_map(|one| figure(one, key));
                let figures = figures.collect::<Result<Vec<f64>, _>>()?;
                if !figures.is_empty() {
                    values.entry(key).or_default().push((*name, mean(&figures)?));
                }
            }
        }
        values.retain(|_, devices| devices.len() >= PEERS_MIN);
        Ok(Self(values))
    }

    fn comparisons(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    fn judge(
        self,
        facts: Facts,
        devices: &Devices<'_>,
        alpha: f64,
        margin: f64,
    ) -> Result<Group, NoEstimate> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut group = Group {
            facts,
            devices: number(devices.len()),
            sessions: number(devices.values().map(Vec::len).sum()),
            rows: Vec::new(),
            outliers: Vec::new(),
        };
        for (key, values) in self.0 {
            let logs: Vec<f64> = values.iter().map(|(_, log)| *log).collect();
            let peers = Peers::of(&logs, alpha)?;
            let first = devices.values().flatten().next();
            let unit = first.map_or_else(String::new, |session| unit_of(session, key));
            for (at, (name, log)) in values.iter().enumerate() {
                let peers = peers.without(&logs, at, alpha)?;
                if !peers.differs(*log, margin) {
                    continue;
                }
                let sessions = devices.get(name).into_iter().flatten();
                group.outliers.push(Outlier {
                    device: (*name).to_owned(),
                    key: key.clone(),
                    unit: unit.clone(),
                    value: log.exp(),
                    median: peers.median.exp(),
                    deviation: (log - peers.median).exp_m1(),
                    z: peers.z(*log),
                    limit: peers.limit,
                    worse: (log - peers.median) * key.metric.worse() > 0.0,
                    sessions: sessions.map(|one| one.name.clone()).collect(),
                });
            }
            group.rows.push(RowReport {
                key: key.clone(),
                unit,
                devices: number(values.len()),
                median: peers.median.exp(),
                spread: peers.scale.exp_m1(),
                limit: peers.limit,
                detectable: peers.detectable(margin).exp_m1(),
            });
        }
        group.outliers.sort_by(|a, b| b.z.abs().total_cmp(&a.z.abs()));
        Ok(group)
    }
}

/// The logarithm of a session's figure; of a native rate that of its work.
fn figure(session: &Session, key: &RowKey) -> Option<Result<f64, NoEstimate>> {
    let series = session.rows.get(key)?.series().filter(|series| !series.is_bound)?;
    let work = work_of(session, key).map_or(0.0, |work| work.amount.ln());
    Some(series.mean().map(|log| log + work))
}

fn work_of<'a>(session: &'a Session, key: &RowKey) -> Option<&'a crate::session::Work> {
    let work = session.work.get(&key.victim)?;
    (key.metric == Metric::NativeRate && work.amount > 0.0).then_some(work)
}

fn unit_of(session: &Session, key: &RowKey) -> String {
    match (key.metric, work_of(session, key)) {
        (Metric::NativeRate, Some(work)) => format!("{}/s", work.unit),
        (Metric::NativeRate, None) => "requests/s".to_owned(),
        _ => "ratio".to_owned(),
    }
}
