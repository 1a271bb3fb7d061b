//! Doses of the aggressor, and the rotation of doses over runs, on the virtual GPU.

use crate::support::{Lab, TestResult, finish};
use gpubench_record::RunRecord;

/// One mechanism in space; without noise the aggressor takes from the victim in proportion to its
/// dose.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
decides = false
mechanisms = ["mps"]
axes = ["compute/sm", "bandwidth/dram"]
doses = [0.5, 1.0]
device_time = "60s"
blocks = { min = 6, max = 6 }
cell = { warmup = "10ms", closed = "100ms", gap = "5ms", open = "60ms" }
cell_min = { warmup = "10ms", closed = "100ms", gap = "5ms", open = "60ms" }
"#;

fn run(rotation: &str, more: &[&str]) -> Result<(RunRecord, String), crate::support::Error> {
    let lab = Lab::on("hopper")?.profile(&format!("{PROFILE}{rotation}"))?;
    let printed = finish(lab.matrix("out", more))?.ended_with(0)?.text();
    Ok((lab.record("out")?, printed))
}

#[test]
fn retention_falls_with_the_dose_and_the_area_lies_between() -> TestResult {
    let (record, printed) = run("", &[])?;
    assert_eq!(record.dose_curves.len(), 2, "{printed}");
    assert!(printed.contains("Doses: retention"), "{printed}");
    for curve in &record.dose_curves {
        assert!(curve.outcome.is_measured(), "{curve:?}");
        assert_eq!(curve.rises, []);
        let [half, full] = &curve.points[..] else {
            return Err(format!("{curve:?}").into());
        };
        let value = |figure: &Option<gpubench_record::Estimate>| {
            figure.as_ref().map_or(f64::NAN, |figure| figure.value)
        };
        let (at_half, at_full) = (value(&half.retention), value(&full.retention));
        let area = value(&curve.area);
        let trapezoid = (1.0 + 2.0 * at_half + at_full) / 4.0;
        assert!((area - trapezoid).abs() < 0.002, "{area} and {trapezoid}");
        // Half the dose costs about half, within a duty cycle of 10 ms in a window of 100 ms.
        let halved = (1.0 - at_half) / (1.0 - at_full);
        assert!((0.4..0.6).contains(&halved), "{at_half} {at_full}");
        assert!(value(&half.achieved) < 0.6 * value(&full.achieved) + 0.05);
        let row = record.matrix.iter().find(|row| {
            row.aggressor.as_deref() == Some(&curve.aggressor) && row.variant == curve.variant
        });
        let of_row = row.and_then(|row| row.retention.as_ref());
        assert_eq!(of_row, full.retention.as_ref(), "the row is that of dose 1");
    }
    Ok(())
}

#[test]
fn a_run_of_a_rotation_has_the_doses_of_its_pairs_and_says_what_it_leaves_out() -> TestResult {
    let (record, printed) = run("[rotation]\nruns = 2\n", &["--rotation", "3"])?;
    let rotation = record.plan.rotation.as_ref().ok_or("no rotation")?;
    assert_eq!((rotation.run, rotation.runs), (3, 2));
    let [curve] = &record.dose_curves[..] else {
        return Err(format!("{:?}", record.dose_curves).into());
    };
    assert_eq!(curve.victim, "stream");
    let said = "not planned: dose 0.5 of compute beside fma-hog";
    assert!(printed.contains(said), "{printed}");
    Ok(())
}
