//! `matrix --calibration`: a calibration belongs to one device, its hash to a model of GPU.

use gpubench_record::DeviceKind;

use crate::support::{Error, Lab, TestResult, finish};

const MECHANISMS: &str = "--mechanism=exclusive,time-slicing";

/// A folder with a run on a machine of this name, into `made`.
fn measured(name: &str) -> Result<Lab, Error> {
    let name = format!("name = \"{name}\"");
    let lab = Lab::changed("turing", &[("name = \"turing\"", &name)], "")?;
    finish(lab.matrix("made", &[MECHANISMS]))?.ended_with(0)?;
    Ok(lab)
}

#[test]
fn a_calibration_is_reused_on_its_own_device_only() -> TestResult {
    let (one, other) = (measured("one")?, measured("other")?);
    let (made, elsewhere) = (one.record("made")?, other.record("made")?);
    assert_eq!(made.calibration.hash, elsewhere.calibration.hash, "one model of GPU");
    let bound = made.calibration.binding.as_ref().ok_or("a binding")?;
    assert_eq!((&bound.uuid, bound.kind), (&made.device.uuid, DeviceKind::Virtual));
    assert_eq!(bound.peaks["memory_bytes_per_s"], 2.0 * 5001e6 * 256.0 / 8.0);

    let reuse = |out: &str, path: &str| {
        let more = [MECHANISMS, "--calibration", path];
        finish(one.matrix(out, &more))
    };
    reuse("again", "made")?.ended_with(0)?;
    assert_eq!(one.record("again")?.calibration, made.calibration);

    let refused = |path: &str, said: &[&str]| -> TestResult {
        let done = reuse("refused", path)?.ended_with(2)?;
        let mut lines = done.stderr.lines();
        let line = lines.find(|line| line.contains("it belongs to"));
        let line = line.ok_or_else(|| done.stderr.clone())?;
        assert!(said.iter().all(|text| line.contains(text)), "{line}");
        Ok(())
    };
    let uuids = [made.device.uuid.as_str(), &elsewhere.device.uuid];
    refused(&other.arg("made"), &uuids)?;
    let mut real = made.calibration.clone();
    real.binding.iter_mut().for_each(|bound| bound.kind = DeviceKind::Real);
    one.write("real.json", &serde_json::to_string(&real)?)?;
    refused("real.json", &["(real, ", "(virtual, "])?;
    Ok(())
}

#[test]
fn a_calibration_of_an_old_record_has_no_binding_and_the_run_says_so() -> TestResult {
    let lab = measured("one")?;
    let mut old = lab.record("made")?.calibration;
    (old.basis, old.binding) = (None, None);
    // In format 1.0 the hash covered the entries.
    let entries = serde_json::to_string(&old.entries)?;
    old.hash = blake3::hash(entries.as_bytes()).to_hex().to_string();
    lab.write("old.json", &serde_json::to_string(&old)?)?;
    let more = [MECHANISMS, "--calibration", "old.json"];
    let done = finish(lab.matrix("again", &more))?.ended_with(0)?;
    assert!(done.text().contains("the reused calibration has no binding"), "{}", done.text());
    assert_eq!(lab.record("again")?.calibration, old);
    Ok(())
}
