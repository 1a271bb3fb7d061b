//! An aggressor is held against what the hardware can do, not against a longer run of itself.

use gpubench_record::CeilingKind;

use crate::support::{Lab, SHORT, TestResult, finish};

#[test]
fn an_aggressor_far_below_the_ceiling_of_the_hardware_leaves_no_level() -> TestResult {
    let profile = SHORT.replace("compute/sm", "bandwidth/dram");
    let whole = "dram_gb_per_s = 320.0";
    for (rate, is_weak) in [(whole, false), ("dram_gb_per_s = 150.0", true)] {
        let lab = Lab::changed("turing", &[(whole, rate)], "")?.profile(&profile)?;
        let more = ["--mechanism=exclusive,time-slicing"];
        finish(lab.matrix("out", &more))?.ended_with(0)?;
        let record = lab.record("out")?;
        // NVML reports the clock and the width of the machine file in both cases.
        let peak = &record.calibration.peaks["dram-copy"];
        let rated = 2.0 * 5001e6 * 256.0 / 8.0;
        assert_eq!((peak.ceiling, peak.peak_per_s), (CeilingKind::Hardware, rated));
        assert_eq!(peak.alone_per_s < 0.6 * rated, is_weak, "{peak:?}");
        let mut rows = record.matrix.iter();
        let row = rows.find(|row| row.mechanism == "time-slicing").ok_or("no row")?;
        let reason = row.outcome.reason.clone().unwrap_or_default();
        let says = "of its resource's peak (hardware: 3.201e11 bytes per s, memory clock 5001 MHz \
                    x 256 bits x 2), 0.6 are needed";
        assert_eq!(reason.contains(says), is_weak, "{reason}");
        assert_eq!(row.level.is_none(), is_weak, "{row:?}");
        let report = lab.gpubench(["report", "out", "--format", "md"]);
        let text = finish(report)?.ended_with(0)?.stdout;
        assert!(text.contains("| dram-copy | ") && text.contains(" | hardware | "), "{text}");
    }
    Ok(())
}
