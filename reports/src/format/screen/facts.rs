//! The sentences of the screen about the run as a whole.

use gpubench_record::{DeviceKind, RunRecord, TimePart};

use crate::format::figures::{confidence, two_decimals};
use crate::matrix::faults::trials_each;
use crate::matrix::{Column, Glance, without_jitter};
use gpubench_record::counted;
use gpubench_show::{clean, list};

/// Device, driver, tenants, profile, length and date.
pub(in crate::format) fn run(record: &RunRecord) -> String {
    let (device, provenance) = (&record.device, &record.provenance);
    let started = clean(&provenance.started_at);
    let ended = provenance.ended_at.as_deref();
    // Between an interruption and the start after it nothing ran.
    let pauses = record.interruptions.iter().filter_map(|one| {
        Some(seconds(&one.provenance.started_at)? - seconds(&one.last_event_at)?)
    });
    let pauses = pauses.sum::<i64>();
    let length = ended.and_then(|ended| Some(seconds(ended)? - seconds(&started)? - pauses));
    let parts = [
        Some(clean(&device.name)),
        Some(format!("driver {}", clean(&device.driver))),
        Some(counted(record.plan.tenants as usize, "tenant")),
        Some(format!("profile {}, seed {}", clean(&record.profile.name), record.seed)),
        length.map(in_minutes),
        in_windows(record),
        started.get(..10).map(str::to_owned),
    ];
    // Two spaces do not survive the wrapping of words.
    parts.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}

/// The part of its time in which the run measured. A virtual device has a time of its own, which
/// passes faster than that of the host.
fn in_windows(record: &RunRecord) -> Option<String> {
    let sum = |has: fn(TimePart) -> bool| {
        let parts = record.time.iter().filter(|one| has(one.part));
        parts.map(|one| one.ns as f64).sum::<f64>()
    };
    let (all, windows) = (sum(|_| true), sum(|part| part == TimePart::Windows));
    let whole = match record.device.kind {
        DeviceKind::Virtual => format!("{} of model time", in_minutes((all / 1e9).round() as i64)),
        DeviceKind::Real => "it".to_owned(),
    };
    // A run that was stopped before its first cell has no window.
    (windows > 0.0).then(|| format!("{:.0} % of {whole} in windows", 100.0 * windows / all))
}

fn in_minutes(seconds: i64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Seconds of a stamp such as `2026-11-22T11:26:41Z` since 1970.
fn seconds(stamp: &str) -> Option<i64> {
    let number = |from: usize, to: usize| stamp.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Years that begin in March: the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 719_469;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

pub(in crate::format) fn figures(record: &RunRecord, glance: &Glance) -> String {
    let columns = || glance.columns.iter();
    let has = |axis: &str| columns().any(|column| column.axis == axis);
    let is_split = columns().any(|column| column.axis == "memory" && column.sub_axis.is_some());
    let rates = |column: &Column| !["jitter", "memory", "fault"].contains(&column.axis.as_str());
    let rates = columns().any(rates).then(|| {
        "rate beside a neighbour that stresses the resource over the rate beside idle ones (1.00: \
         unaffected)"
            .to_owned()
    });
    let jitter = has("jitter").then(|| {
        let missing = without_jitter(record);
        let beside =
            match (missing.is_empty(), record.matrix.iter().any(|row| row.jitter.is_some())) {
                (false, true) => format!(", not measured beside {}", list(&missing, "and")),
                _ => String::new(),
            };
        format!(
            "jitter: spread that the worst neighbour adds to requests, in native medians (latency \
             alone){beside}"
        )
    });
    let memory = has("memory").then(|| match is_split {
        true => "memory: promises kept; cap: memory beyond the limit".to_owned(),
        false => "memory: checks passed".to_owned(),
    });
    let faults = has("fault").then(|| {
        let variants = glance.rows.iter().map(|row| row.variant.as_str());
        let each =
            trials_each(record, variants).map_or_else(String::new, |each| format!(", {each}"));
        format!("faults: those that harm no victim{each}")
    });
    let parts: Vec<String> = [rates, jitter, memory, faults].into_iter().flatten().collect();
    format!("Figures: {}.", parts.join("; "))
}

/// The widest intervals, and on what the overall level rests.
pub(super) fn widths(record: &RunRecord, glance: &Glance) -> String {
    // Rounded up: no interval is wider than it says.
    let within = |what: &str, half: Option<f64>| {
        Some(format!("{what} within {}", two_decimals((half? * 100.0).ceil() / 100.0)))
    };
    let widest = glance.widest;
    let parts = [within("rates", widest.retention), within("jitter", widest.jitter)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let overall = overall(record, glance);
    match parts.is_empty() {
        true => overall,
        false => {
            let (level, parts) = (confidence(&record.plan), parts.join(", "));
            format!("{level} intervals within this session: {parts}; {overall}")
        }
    }
}

/// The axes that an overall level can rest on.
const ALL_AXES: usize = 5;

/// The axes on which the overall levels rest: those with a level, in the order of the columns.
fn overall(record: &RunRecord, glance: &Glance) -> String {
    let of_row = |variant: &str| {
        let row = record.overall.iter().find(|row| row.variant == variant);
        row.map_or(&[][..], |row| &row.axes)
    };
    let rows = glance.rows.iter().map(|row| of_row(&row.variant));
    let rows: Vec<&[String]> = rows.collect();
    let mut axes: Vec<&str> = Vec::new();
    let columns = glance.columns.iter().map(|column| column.axis.as_str());
    let shown = columns.filter(|axis| rows.iter().any(|row| row.iter().any(|one| one == axis)));
    for axis in shown.chain(rows.iter().copied().flatten().map(String::as_str)) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let names = axes.iter().map(|axis| match *axis {
        "fault" => "faults".to_owned(),
        axis => clean(axis),
    });
    let names: Vec<String> = names.collect();
    let differ = rows.iter().any(|row| row.len() < axes.len());
    match (&names[..], differ) {
        // Records before format 2.3 do not name them.
        ([], _) => "overall: the weakest axis".to_owned(),
        ([axis], _) => format!("overall: the level of {axis}"),
        (_, false) => format!("overall: the weakest of {}", list(&names, "and")),
        (_, true) if names.len() >= ALL_AXES => {
            "overall: the weakest axis, as far as decided".to_owned()
        }
        (_, true) => format!("overall: the weakest of {}, as far as decided", list(&names, "and")),
    }
}

/// Why mechanisms have no overall level: the axes without a level, and what measures them.
pub(super) fn open_overall(record: &RunRecord, glance: &Glance) -> Vec<String> {
    // The profile leaves every level open, which a notice says.
    if !record.plan.decides {
        return Vec::new();
    }
    let mut groups: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for row in glance.rows.iter().filter(|row| row.overall.is_none()) {
        let own = record.overall.iter().find(|overall| overall.variant == row.variant);
        let axes = own.map(|overall| overall.unmeasured_axes.clone()).unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == axes) {
            Some((_, labels)) => labels.push(&row.label),
            None => groups.push((axes, vec![&row.label])),
        }
    }
    let remedy = |axis: &str| match axis {
        "fault" => "faults (add --faults, --fault-trials 17)".to_owned(),
        axis => clean(axis),
    };
    let groups = groups.into_iter().filter(|(axes, _)| !axes.is_empty());
    let line = |(axes, labels): (Vec<String>, Vec<&str>)| {
        let axes: Vec<String> = axes.iter().map(|axis| remedy(axis)).collect();
        let labels = list(&labels, "and");
        format!("overall of {labels} is open: no level yet in {}", list(&axes, "and"))
    };
    groups.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{in_minutes, seconds};

    #[test]
    fn the_length_of_a_run_crosses_midnights_and_leap_days() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:00:00Z"), Some(951_825_600));
        let length = |from, to| seconds(to).zip(seconds(from)).map(|(to, from)| to - from);
        assert_eq!(length("2024-02-28T23:59:00Z", "2024-03-01T00:00:01Z"), Some(86_461));
        assert_eq!(seconds("yesterday"), None);
        assert_eq!([in_minutes(59), in_minutes(401)], ["59 s", "6 min 41 s"]);
    }
}
