//! The metrics of a night: the figures of a GPU, and how the last night ended.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpubench_compare::RowKey;
use gpubench_compare::diff::{Figures, Verdict};
use gpubench_record::RunRecord;
use gpubench_reports::format::{DeviceLabels, Gauges, Labels};
use gpubench_run::rfc3339_now;
use ureq::tls::{RootCerts, TlsConfig};

use super::end::{Compared, End, Outcome};
use crate::error::ExpectedError;

/// Longest time of a push.
const PUSH_LIMIT: Duration = Duration::from_secs(30);

/// The file of a kind of metrics, one for each GPU.
pub fn name(kind: &str, device: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let device = device.chars().map(|letter| if is_plain(letter) { letter } else { '-' });
    format!("gpubench-{kind}-{}.prom", device.collect::<String>())
}

const VERDICTS: [Verdict; 4] =
    [Verdict::Regressed, Verdict::Improved, Verdict::Unchanged, Verdict::Inconclusive];

/// The metrics of a record and, behind them, of its comparison.
pub fn figures(of_record: &str, run: &RunRecord, compared: &Compared) -> Vec<u8> {
    let mut gauges = Gauges::of(DeviceLabels::of(run));
    gauges.text = of_record.replace("# EOF\n", "");
    if let Compared::With(report) = compared {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.primary).collect();
        let verdicts = rows.iter().flat_map(|row| {
            let labels = labels_of(&row.key);
            VERDICTS.into_iter().map(move |verdict| {
                let is = f64::from(u8::from(row.verdict == verdict));
                ([labels.clone(), vec![("verdict", verdict.as_str())]].concat(), is)
            })
        });
        let help = "1 for the verdict of a row of the comparison with the nights before.";
        gauges.add("verdict", help, verdicts);
        let parts: [(&str, &str, Part); 4] = [
            (
                "change",
                "Change against the nights before, as a share or in native medians.",
                |one| one.change,
            ),
            ("change_lower", "Lower end of the interval of that change.", |one| one.lo),
            ("change_upper", "Upper end of the interval of that change.", |one| one.hi),
            ("baseline", "The same figure of the nights before.", |one| one.before),
        ];
        for (name, help, part) in parts {
            let values = rows
                .iter()
                .filter_map(|row| Some((labels_of(&row.key), part(row.figures.as_ref()?))));
            gauges.add(name, help, values);
        }
    }
    gauges.text += "# EOF\n";
    gauges.text.into_bytes()
}

/// One figure of a comparison.
type Part = fn(&Figures) -> f64;

fn labels_of(key: &RowKey) -> Labels<'_> {
    let (axis, sub_axis) = key.axis.split_once('/').unwrap_or((&key.axis, ""));
    vec![
        ("variant", key.variant.as_str()),
        ("axis", axis),
        ("sub_axis", sub_axis),
        ("victim", &key.victim),
        ("aggressor", key.aggressor.as_deref().unwrap_or_default()),
        ("metric", key.metric.as_str()),
    ]
}

/// How the last night ended, and when.
pub fn outcome(end: &End, device: DeviceLabels) -> String {
    let now = humantime::parse_rfc3339(&rfc3339_now()).unwrap_or(UNIX_EPOCH);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut gauges = Gauges::of(device);
    let is = |outcome: Outcome| f64::from(u8::from(end.outcome == outcome));
    let outcomes = Outcome::ALL.map(|one| (vec![("outcome", one.as_str())], is(one)));
    gauges.add("night", "1 for the outcome of the last night.", outcomes);
    let code = f64::from(end.code.code());
    gauges.add("night_exit_code", "Exit code of the last night.", [(Vec::new(), code)]);
    let warns = f64::from(u8::from(end.warning.is_some()));
    let help = "1 where the last night passed with undecided rows or nothing to compare with.";
    gauges.add("night_warning", help, [(Vec::new(), warns)]);
    let help = "When the last night ended, in seconds since 1970, measured or not.";
    gauges.add("night_timestamp_seconds", help, [(Vec::new(), now.as_secs() as f64)]);
    gauges.text + "# EOF\n"
}

/// The group of a GPU in a Pushgateway: its labels are those of every series.
pub fn group(device: &DeviceLabels) -> String {
    let (label, value) = match device.uuid.as_str() {
        "" => ("Hostname", device.hostname.as_str()),
        uuid => ("UUID", uuid),
    };
    format!("metrics/job/gpubench/{label}@base64/{}", URL_SAFE_NO_PAD.encode(value))
}

/// Replaces the metrics of these names in the group.
pub fn push(url: &str, group: &str, text: String) -> Result<(), ExpectedError> {
    let to = format!("{}/{group}", url.trim_end_matches('/'));
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(PUSH_LIMIT))
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build());
    let agent: ureq::Agent = config.build().into();
    let sent = agent.post(&to).content_type("text/plain; version=0.0.4").send(text);
    sent.map(|_| ()).map_err(|error| {
        ExpectedError::from_write(PathBuf::from(to), std::io::Error::other(error.to_string()))
    })
}
