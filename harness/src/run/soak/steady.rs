//! When a device under load is steady, and how long it is loaded after an idle.

use gpubench_record::{SoakPlan, SpeedCheck};
use gpubench_stats::moments::moments;

/// The device is steady when the rates of so many windows in a row vary by less than this, as a
/// standard deviation over their mean, and its temperature by less than this slope.
const WINDOWS: usize = 5;
const RATE_SPREAD_MAX: f64 = 0.01;
const SLOPE_MAX_C_PER_MIN: f64 = 0.5;

/// Whether the last windows are those of a steady device.
pub(super) fn is_steady(windows: &[SpeedCheck]) -> bool {
    let Some(at) = windows.len().checked_sub(WINDOWS) else {
        return false;
    };
    let last = &windows[at..];
    let rates: Vec<f64> = last.iter().map(|window| window.rate_per_s).collect();
    let Ok(found) = moments(&rates) else {
        return false;
    };
    let minutes = last[WINDOWS - 1].at_ns.saturating_sub(last[0].at_ns) as f64 / 60e9;
    let ends = last[0].temperature_c.zip(last[WINDOWS - 1].temperature_c);
    let slope = ends.map_or(0.0, |(from, to)| (to - from) / minutes);
    found.sd <= RATE_SPREAD_MAX * found.mean && slope.abs() < SLOPE_MAX_C_PER_MIN
}

/// How long the device is loaded after an idle of this length; `None` where it is not.
pub(super) fn load_after_ns(plan: &SoakPlan, idle_ns: u64) -> Option<u64> {
    let is_long = plan.keep_warm_ns > 0 && idle_ns >= plan.keep_warm_ns;
    is_long.then(|| idle_ns.min(plan.window_ns))
}

#[cfg(test)]
mod tests {
    use gpubench_record::{SoakPlan, SpeedCheck};

    use super::{is_steady, load_after_ns};

    fn windows(rates: &[f64], temperatures: &[f64]) -> Vec<SpeedCheck> {
        let both = rates.iter().zip(temperatures).zip(1_u64..);
        both.map(|((&rate_per_s, &temperature), number)| SpeedCheck {
            at_ns: number * 12_000_000_000,
            rate_per_s,
            sm_clock_mhz: None,
            temperature_c: (temperature > 0.0).then_some(temperature),
        })
        .collect()
    }

    #[test]
    fn a_device_is_steady_when_rate_and_temperature_are() {
        let flat = [50.0; 5];
        for (rates, temperatures, steady) in [
            (&[50.0, 50.2, 49.9, 50.1, 50.0][..], &[60.0; 5][..], true),
            // Four windows do not show it.
            (&flat[..4], &[60.0; 4], false),
            // The rate falls by 1.2 % a window.
            (&[52.4, 51.8, 51.2, 50.6, 50.0], &[60.0; 5], false),
            // 1 C in 48 s.
            (&flat, &[60.0, 60.0, 61.0, 61.0, 61.0], false),
            // Earlier windows do not count.
            (&[60.0, 50.0, 50.0, 50.0, 50.0, 50.0], &[40.0, 60.0, 60.0, 60.0, 60.0, 60.0], true),
            // A device without a thermometer.
            (&flat, &[0.0; 5], true),
        ] {
            let windows = windows(rates, temperatures);
            assert_eq!(is_steady(&windows), steady, "{rates:?} {temperatures:?}");
        }
    }

    #[test]
    fn a_device_is_loaded_for_as_long_as_it_was_idle_up_to_a_window() {
        for (keep_warm_ns, idle_ns, load_ns) in [
            (2_000, 1_999, None),
            (2_000, 2_000, Some(2_000)),
            (2_000, 12_001, Some(12_000)),
            (0, 12_001, None),
        ] {
            let plan =
                SoakPlan { limit_ns: 0, window_ns: 12_000, keep_warm_ns, check_ns: 0, every_ns: 1 };
            assert_eq!(load_after_ns(&plan, idle_ns), load_ns, "{keep_warm_ns} {idle_ns}");
        }
    }
}
