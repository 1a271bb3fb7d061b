//! The SM clock under full load: its range, the reasons that limited it, and whether it is set.
//!
//! NVML reports application clocks (`nvmlDeviceGetApplicationsClock`), which recent drivers replace
//! by clock locks (`nvidia-smi -lgc`); it has no call that reports a lock (nvml.h, "Device
//! Commands"). A locked clock is constant; so is the clock of a GPU that stays at its maximum.

use gpubench_record::TelemetryRow;
use serde_json::{Value, json};

use gpubench_host::device::identity::SmClocks;

/// Reasons for reduced clocks (nvml.h, `nvmlClocksEventReasons`), by their bit. Idleness is absent:
/// samples of an idle device do not count.
const REASONS: [(u64, &str); 8] = [
    (0x002, "application clocks setting"),
    (0x004, "sw power cap"),
    (0x008, "hw slowdown"),
    (0x010, "sync boost"),
    (0x020, "sw thermal slowdown"),
    (0x040, "hw thermal slowdown"),
    (0x080, "hw power brake"),
    (0x100, "display clock setting"),
];
/// `nvmlClocksEventReasonGpuIdle`.
const IDLE: u64 = 1;
/// The reason that follows from an application clock.
const SETTING: u64 = 2;

/// Samples of the SM clock under load.
#[derive(Debug, Clone, PartialEq)]
pub struct Clocks {
    settings: SmClocks,
    /// Clock in MHz and reasons of each sample under load.
    samples: Vec<(f64, u64)>,
}

impl Clocks {
    /// From telemetry of a cell with full load.
    pub fn sampled(settings: SmClocks, rows: &[TelemetryRow]) -> Result<Self, String> {
        let of = |metric: &'static str| rows.iter().filter(move |row| row.metric == metric);
        let at = |t_ns: u64| of("throttle_reasons").find(|row| row.t_ns == t_ns);
        let all = of("sm_clock").filter_map(|row| Some((row.value, at(row.t_ns)?.value as u64)));
        let all: Vec<(f64, u64)> = all.collect();
        if all.is_empty() {
            return Err(
                "NVML does not report the SM clock and the reasons for reduced clocks".to_owned()
            );
        }
        let loaded = all.iter().copied().filter(|(_, reasons)| reasons & IDLE == 0);
        let samples: Vec<(f64, u64)> = loaded.collect();
        if samples.is_empty() {
            return Err(format!("none of {} samples was under load", all.len()));
        }
        Ok(Self { settings, samples })
    }

    /// Smallest and largest sampled clock.
    fn range(&self) -> (f64, f64) {
        let mhz = || self.samples.iter().map(|(mhz, _)| *mhz);
        (mhz().fold(f64::MAX, f64::min), mhz().fold(0.0, f64::max))
    }

    /// Every reason in any sample.
    fn reasons(&self) -> Vec<&'static str> {
        let all = self.samples.iter().fold(0, |all, (_, reasons)| all | reasons);
        let named = REASONS.iter().filter(|(bit, _)| all & bit != 0);
        named.map(|(_, name)| *name).collect()
    }

    /// Whether the clock is set: a word for programs and an explanation for people.
    fn verdict(&self) -> (&'static str, String) {
        let by_reason = self.samples.iter().any(|(_, reasons)| reasons & SETTING != 0);
        let SmClocks { max_mhz, application_mhz, default_mhz } = self.settings;
        let (min, max) = self.range();
        match (application_mhz, default_mhz) {
            (Some(application), Some(default)) if application != default => {
                let text =
                    format!("set: application clock {application} MHz, default {default} MHz");
                return ("set", text);
            }
            _ if by_reason => {
                let text = "set: NVML gives the application clocks setting as a reason";
                return ("set", text.to_owned());
            }
            _ => {}
        }
        if min < max {
            let text = "free: the clock varies, so it is not locked to one value";
            return ("free", text.to_owned());
        }
        let Some(greatest) = max_mhz else {
            let text = "constant; NVML does not report the greatest clock, so whether this one is \
                        locked is unknown";
            return ("unknown", text.to_owned());
        };
        if min >= f64::from(greatest) {
            let text = "at its maximum: a lock at this clock has no effect under this load";
            return ("greatest", text.to_owned());
        }
        let text = if self.reasons().is_empty() {
            "constant below the maximum without a reason in NVML: probably locked"
        } else {
            "constant below the maximum: limited by these reasons, or locked"
        };
        ("unknown", text.to_owned())
    }

    pub fn as_json(&self) -> Value {
        let (min, max) = self.range();
        let (word, text) = self.verdict();
        json!({
            "verdict": word, "text": text, "samples": self.samples.len(),
            "sm_mhz": { "least": min, "most": max },
            "greatest_sm_mhz": self.settings.max_mhz,
            "application_sm_mhz": self.settings.application_mhz,
            "default_application_sm_mhz": self.settings.default_mhz,
            "reasons": self.reasons(),
            "lock": "NVML does not report clock locks",
        })
    }

    pub fn as_text(&self) -> String {
        let (min, max) = self.range();
        let range =
            if min < max { format!("{min:.0} to {max:.0} MHz") } else { format!("{max:.0} MHz") };
        let greatest = self.settings.max_mhz;
        let greatest = greatest.map_or_else(String::new, |mhz| format!(" of at most {mhz}"));
        let reasons = match self.reasons() {
            none if none.is_empty() => "nothing".to_owned(),
            some => some.join(", "),
        };
        format!(
            "SM clock under full load: {range}{greatest}, limited by {reasons}; {} (NVML does not \
             report clock locks)",
            self.verdict().1
        )
    }
}

#[cfg(test)]
mod tests {
    use gpubench_host::device::identity::SmClocks;
    use gpubench_record::TelemetryRow;

    use super::Clocks;

    const FREE: SmClocks =
        SmClocks { max_mhz: Some(1980), application_mhz: Some(1980), default_mhz: Some(1980) };

    fn rows(samples: &[(f64, u64)]) -> Vec<TelemetryRow> {
        let row = |t_ns: usize, metric: &str, value: f64| TelemetryRow {
            t_ns: t_ns as u64,
            cell: String::new(),
            source: "nvml".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: String::new(),
        };
        let both = |(at, (mhz, reasons)): (usize, &(f64, u64))| {
            let reasons = row(at, "throttle_reasons", *reasons as f64);
            [row(at, "sm_clock", *mhz), reasons]
        };
        samples.iter().enumerate().flat_map(both).collect()
    }

    #[test]
    fn a_set_clock_a_capped_clock_and_an_unexplained_clock_have_different_verdicts() {
        let set = SmClocks { application_mhz: Some(1410), ..FREE };
        let unreported = SmClocks { application_mhz: None, default_mhz: None, ..FREE };
        for (settings, samples, word, reasons) in [
            (FREE, &[(1980.0, 0), (1980.0, 0)][..], "greatest", &[][..]),
            (FREE, &[(1980.0, 0), (1500.0, 4)], "free", &["sw power cap"]),
            (FREE, &[(1500.0, 4), (1500.0, 4)], "unknown", &["sw power cap"]),
            (FREE, &[(1500.0, 0)], "unknown", &[]),
            (set, &[(1410.0, 0)], "set", &[]),
            (unreported, &[(1410.0, 2)], "set", &["application clocks setting"]),
            (unreported, &[(1980.0, 0)], "greatest", &[]),
            // Samples of an idle device do not count.
            (FREE, &[(1980.0, 0), (345.0, 1)], "greatest", &[]),
        ] {
            let json = Clocks::sampled(settings, &rows(samples)).map(|clocks| clocks.as_json());
            let json = json.unwrap_or_default();
            assert_eq!(json["verdict"], word, "{samples:?}");
            assert_eq!(json["reasons"], serde_json::json!(reasons), "{samples:?}");
        }
    }

    #[test]
    fn without_a_sample_under_load_there_is_no_verdict() {
        for (samples, reason) in
            [(&[][..], "does not report"), (&[(345.0, 1)], "none of 1 samples")]
        {
            let refused = Clocks::sampled(FREE, &rows(samples));
            assert!(refused.as_ref().is_err_and(|text| text.contains(reason)), "{refused:?}");
        }
    }
}
