//! What `doctor` tells of the clocks: where the SMs' clock stood while the device was fully loaded,
//! why it was no higher, and whether somebody has set it.
//!
//! NVML tells application clocks (`nvmlDeviceGetApplicationsClock`), which recent drivers replace
//! by locks (`nvidia-smi -lgc`), and it has no call that tells a lock (nvml.h, "Device Commands").
//! A lock shows as one clock throughout; a GPU that keeps its greatest clock looks the same.

use gpubench_record::TelemetryRow;
use serde_json::{Value, json};

use crate::device::Nvml;
use crate::device::settings::SmClocks;

/// Reasons for reduced clocks (nvml.h, `nvmlClocksEventReasons`), by their bit. That nothing runs
/// is none: the look is meant for when something does.
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
/// The one of them that a setting of somebody's leads to.
const SETTING: u64 = 2;

/// What was seen of the SMs' clock under load.
#[derive(Debug, Clone, PartialEq)]
pub struct Clocks {
    /// What NVML tells of settings.
    settings: SmClocks,
    /// Clock and reasons of each look at which something ran.
    looks: Vec<(f64, u64)>,
}

impl Clocks {
    /// From what was sampled while the device was loaded.
    ///
    /// # Errors
    /// When no look met a load, or NVML does not tell clock and reasons.
    pub fn seen(nvml: &Nvml, rows: &[TelemetryRow]) -> Result<Self, String> {
        Self::of(nvml.sm_clocks(), rows)
    }

    fn of(settings: SmClocks, rows: &[TelemetryRow]) -> Result<Self, String> {
        let of = |metric: &'static str| rows.iter().filter(move |row| row.metric == metric);
        let at = |t_ns: u64| of("throttle_reasons").find(|row| row.t_ns == t_ns);
        let all = of("sm_clock").filter_map(|row| Some((row.value, at(row.t_ns)?.value as u64)));
        let all: Vec<(f64, u64)> = all.collect();
        if all.is_empty() {
            return Err("NVML does not tell the SMs' clock and why it is no higher".to_owned());
        }
        let loaded = all
            .iter()
            .copied()
            .filter(|(_, reasons)| reasons & IDLE == 0);
        let looks: Vec<(f64, u64)> = loaded.collect();
        if looks.is_empty() {
            return Err(format!("none of {} looks met a load", all.len()));
        }
        Ok(Self { settings, looks })
    }

    /// Least and greatest clock that was seen.
    fn range(&self) -> (f64, f64) {
        let mhz = || self.looks.iter().map(|(mhz, _)| *mhz);
        (mhz().fold(f64::MAX, f64::min), mhz().fold(0.0, f64::max))
    }

    /// Every reason that any look met.
    fn reasons(&self) -> Vec<&'static str> {
        let met = self.looks.iter().fold(0, |met, (_, reasons)| met | reasons);
        let named = REASONS.iter().filter(|(bit, _)| met & bit != 0);
        named.map(|(_, name)| *name).collect()
    }

    /// Whether somebody has set it, in a word for programs and a sentence for people.
    fn verdict(&self) -> (&'static str, String) {
        let by_reason = self.looks.iter().any(|(_, reasons)| reasons & SETTING != 0);
        let SmClocks {
            greatest_mhz,
            application_mhz,
            default_mhz,
        } = self.settings;
        let (least, most) = self.range();
        match (application_mhz, default_mhz) {
            (Some(application), Some(default)) if application != default => {
                let told =
                    format!("set: application clock {application} MHz, by default {default}");
                return ("set", told);
            }
            _ if by_reason => {
                let told = "set: NVML names the setting of application clocks as a reason";
                return ("set", told.to_owned());
            }
            _ => {}
        }
        if least < most {
            let told = "free: it moved, so that it is not locked to one clock";
            return ("free", told.to_owned());
        }
        let greatest = greatest_mhz.is_some_and(|greatest| least >= f64::from(greatest));
        if greatest {
            let told = "at its greatest: a lock there would change nothing under this load";
            return ("greatest", told.to_owned());
        }
        let told = if self.reasons().is_empty() {
            "one clock below the greatest for no reason that NVML gives, as a lock has it"
        } else {
            "one clock below the greatest: for the reasons named, or by a lock as well"
        };
        ("unknown", told.to_owned())
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        let (least, most) = self.range();
        let (word, told) = self.verdict();
        json!({
            "verdict": word, "told": told, "looks": self.looks.len(),
            "sm_mhz": { "least": least, "most": most },
            "greatest_sm_mhz": self.settings.greatest_mhz,
            "application_sm_mhz": self.settings.application_mhz,
            "default_application_sm_mhz": self.settings.default_mhz,
            "reasons": self.reasons(),
            "lock": "NVML has no call that tells it",
        })
    }

    /// For people: one line.
    pub fn as_text(&self) -> String {
        let (least, most) = self.range();
        let range = if least < most {
            format!("{least:.0} to {most:.0} MHz")
        } else {
            format!("{most:.0} MHz")
        };
        let greatest = self.settings.greatest_mhz;
        let greatest = greatest.map_or_else(String::new, |mhz| format!(" of {mhz} at most"));
        let reasons = match self.reasons() {
            none if none.is_empty() => "nothing".to_owned(),
            some => some.join(", "),
        };
        format!(
            "SM clock under full load: {range}{greatest}, held back by {reasons}; {} (NVML has no \
             call that tells a lock)",
            self.verdict().1
        )
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::TelemetryRow;

    use super::Clocks;
    use crate::device::settings::SmClocks;

    const FREE: SmClocks = SmClocks {
        greatest_mhz: Some(1980),
        application_mhz: Some(1980),
        default_mhz: Some(1980),
    };

    fn rows(looks: &[(f64, u64)]) -> Vec<TelemetryRow> {
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
        looks.iter().enumerate().flat_map(both).collect()
    }

    #[test]
    fn a_setting_is_told_from_a_cap_and_from_what_nobody_explains() {
        let set = SmClocks {
            application_mhz: Some(1410),
            ..FREE
        };
        let untold = SmClocks {
            application_mhz: None,
            default_mhz: None,
            ..FREE
        };
        for (settings, looks, word, reasons) in [
            (FREE, &[(1980.0, 0), (1980.0, 0)][..], "greatest", &[][..]),
            (FREE, &[(1980.0, 0), (1500.0, 4)], "free", &["sw power cap"]),
            (
                FREE,
                &[(1500.0, 4), (1500.0, 4)],
                "unknown",
                &["sw power cap"],
            ),
            (FREE, &[(1500.0, 0)], "unknown", &[]),
            (set, &[(1410.0, 0)], "set", &[]),
            (
                untold,
                &[(1410.0, 2)],
                "set",
                &["application clocks setting"],
            ),
            (untold, &[(1980.0, 0)], "greatest", &[]),
            // A clock of an idle device says nothing.
            (FREE, &[(1980.0, 0), (345.0, 1)], "greatest", &[]),
        ] {
            let told = Clocks::of(settings, &rows(looks)).map(|clocks| clocks.as_json());
            let told = told.unwrap_or_default();
            assert_eq!(told["verdict"], word, "{looks:?}");
            assert_eq!(told["reasons"], serde_json::json!(reasons), "{looks:?}");
        }
    }

    #[test]
    fn without_a_look_under_load_nothing_is_told() {
        for (looks, reason) in [
            (&[][..], "does not tell"),
            (&[(345.0, 1)], "none of 1 looks"),
        ] {
            let said = Clocks::of(FREE, &rows(looks));
            assert!(
                said.as_ref().is_err_and(|said| said.contains(reason)),
                "{said:?}"
            );
        }
    }
}
