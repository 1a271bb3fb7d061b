//! The share of the device's arithmetic that a tenant got in windows of different lengths.

use gpubench_record::WorkSeries;

use super::{Out, span};

const EXPLAINS: &str = "compute/sm";

/// Of these windows one in twenty may have more.
const MOST: f64 = 0.95;

/// Work in a nanosecond, in thousandths of a request; none of an empty series.
pub(super) fn per_ns(series: &WorkSeries) -> Option<f64> {
    let all: u64 = series
        .milli_requests
        .iter()
        .map(|&work| u64::from(work))
        .sum();
    let watched_ns = series
        .window_ns
        .saturating_mul(series.milli_requests.len() as u64);
    (all > 0 && watched_ns > 0).then(|| all as f64 / watched_ns as f64)
}

/// For each situation and length of window: the median share, and what all but few windows keep to.
pub(super) fn figures(
    out: &mut Out<'_>,
    device_per_ns: Option<f64>,
    configured: Option<f64>,
    windows_ns: &[u64],
    situations: [(&str, &WorkSeries); 2],
) {
    // Without the device alone nothing is a share of it.
    let Some(device_per_ns) = device_per_ns else {
        return;
    };
    let beside = configured.map_or_else(
        || "no share is configured".to_owned(),
        |share| format!("{share:.3} is configured"),
    );
    for (situation, series) in situations {
        for &window_ns in windows_ns {
            let shares = shares(series, window_ns, device_per_ns);
            let name = format!("SM share over {}, {situation}", span(window_ns));
            out.median(
                EXPLAINS,
                &format!("{name} ({beside})"),
                "of the device",
                shares.clone(),
            );
            let most = format!("{name}, 95 % of windows below");
            out.quantile(EXPLAINS, &most, "of the device", MOST, shares);
        }
    }
}

/// Shares over windows that are each made of as many of the series' own as fit.
fn shares(series: &WorkSeries, window_ns: u64, device_per_ns: f64) -> Vec<f64> {
    let each = window_ns / series.window_ns.max(1);
    let windows = series.milli_requests.chunks_exact(each.max(1) as usize);
    windows
        .map(|window| {
            let work: u64 = window.iter().map(|&work| u64::from(work)).sum();
            work as f64 / (device_per_ns * window_ns as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{WorkSeries, per_ns, shares};

    fn series(milli_requests: &[u32]) -> WorkSeries {
        WorkSeries {
            window_ns: 10,
            milli_requests: milli_requests.to_vec(),
        }
    }

    #[test]
    fn shares_are_held_against_the_device_alone() {
        let device = per_ns(&series(&[1_000; 4])).unwrap_or_default();
        assert_eq!(device, 100.0);
        let tenant = series(&[1_000, 0, 500, 500, 900]);
        assert_eq!(shares(&tenant, 10, device), [1.0, 0.0, 0.5, 0.5, 0.9]);
        // A window that is not whole is none.
        assert_eq!(shares(&tenant, 20, device), [0.5, 0.5]);
        assert!(shares(&tenant, 100, device).is_empty());
        assert_eq!(per_ns(&series(&[])), None);
    }
}
