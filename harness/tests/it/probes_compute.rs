//! `matrix --probes` against machine files: the figures and the CSV have the shares, launch times
//! and call times that a machine file plants.

use crate::support::probe::{HOPPER, matrix};
use crate::support::{Error, TestResult, finish, gpubench, with_changes};
use gpubench_record::{Estimate, RunRecord};

/// `hopper` with slower launches, and an MPS that grants a third more than its percentage.
fn machine() -> Result<String, Error> {
    let slower = [("launch_latency_ns = 1800", "launch_latency_ns = 101800")];
    let text = with_changes(HOPPER, &slower)?;
    Ok(format!("{text}\n[defects]\nmps_percentage_error = 0.34\n"))
}

struct Figures(RunRecord);

impl Figures {
    /// The first figure of a variant with this prefix.
    fn of(&self, variant: &str, name: &str) -> Result<&Estimate, Error> {
        let mut all = self.0.probe_figures.iter();
        let found =
            all.find(|one| one.variant.starts_with(variant) && one.figure.starts_with(name));
        let missing = || format!("{variant}: no {name}: {:?}", self.0.probe_figures).into();
        found.map(|one| &one.estimate).ok_or_else(missing)
    }

    /// Checks that a planted figure lies in the interval, or within the tolerance.
    fn has(&self, variant: &str, name: &str, planted: f64, tolerance: f64) -> TestResult {
        let found = self.of(variant, name)?;
        let inside = found.lo <= planted && planted <= found.hi;
        assert!(
            inside || (found.value / planted - 1.0).abs() < tolerance,
            "{variant}: {name}: {found:?} is not {planted}"
        );
        Ok(())
    }
}

#[test]
fn planted_shares_launches_and_calls_are_found() -> TestResult {
    let dir = tempfile::tempdir()?;
    let windows = "probe_windows = [\"10ms\", \"40ms\", \"10s\"]\n";
    let arguments = ["--probes", "--mechanism", "exclusive,mps-quota"];
    // A tenant has more SMs than its percentage, so the mechanism is not in force (4).
    let record = matrix(dir.path(), "out", &machine()?, windows, &arguments, &[0, 4])?;
    let found = Figures(record);

    // Without a neighbour: 50 % and a third more, 88 of 132 SMs. Beside one with as many both are
    // on 44 SMs, which they share evenly, and a kernel is as fast as on its slowest SM.
    let quota = "mps-quota";
    found.has(quota, "SMs with the victim's blocks", 88.0, 0.0)?;
    found.has(quota, "SM share over 10 ms, alone", 88.0 / 132.0, 0.01)?;
    found.has(quota, "SM share over 40 ms, alone", 88.0 / 132.0, 0.01)?;
    found.has(quota, "SM share over 10 s, alone", 88.0 / 132.0, 0.01)?;
    found.has(quota, "SM share over 10 ms, beside", 44.0 / 132.0, 0.01)?;
    found.has(quota, "SM share over 10 s, beside", 44.0 / 132.0, 0.01)?;
    let has_figure = |figure: &str| {
        let mut all = found.0.probe_figures.iter();
        all.any(|one| one.variant.starts_with(quota) && one.figure.contains(figure))
    };
    assert!(has_figure("0.500 is configured"), "{:?}", found.0.probe_figures);

    // Under MPS no launch waits for a time slice.
    let added = found.of(quota, "launch to start, added by a neighbour, median")?;
    assert!(added.value.abs() < 1_000.0, "{added:?}");
    // The time of the call and the latency of the device.
    found.has(quota, "launch to start, alone, median", 2_200.0 + 101_800.0, 0.0)?;
    let alone = found.of(quota, "launch to start, alone, median")?;
    assert!(alone.value > 50_000.0, "{alone:?}");
    found.has(quota, "context creation, alone", 120e6, 0.01)?;
    found.has(quota, "context creation, beside kernels", 120e6, 0.01)?;
    found.has(quota, "module load, alone", 180e3, 0.01)?;
    let beside = found.of(quota, "module load, beside the same calls")?;
    assert!(beside.value > 1.1 * 180e3, "calls do not wait for the driver's lock: {beside:?}");

    let mut report = gpubench(["report", "--format", "csv"]);
    report.arg(dir.path().join("out"));
    let csv = finish(report)?.ended_with(0)?.stdout;
    let header = csv.lines().next().unwrap_or_default();
    assert!(
        header.contains(",overshoot,overshoot_lo,") && header.contains(",figure,figure_value,")
    );
    let of_probe = |line: &&str| line.contains("mps-quota[pct=50],compute,sm,probe");
    let placement = ",SMs with the victim's blocks,88,88,88,interval,6,SMs";
    let lines: Vec<&str> = csv.lines().filter(of_probe).collect();
    assert!(lines.iter().any(|line| line.ends_with(placement)), "{lines:?}");
    Ok(())
}
