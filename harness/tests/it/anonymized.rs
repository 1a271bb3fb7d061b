//! `gpubench report --anonymize`: the copy reads like the record, and names nobody.

use std::path::Path;

use gpubench_reports::Record;

use crate::support::{Error, Lab, TestResult, finish};

/// Every file of a folder with its bytes as text, Parquet files also decoded.
fn texts(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        texts.push((path.display().to_string(), text));
    }
    let record = Record::open(folder)?;
    let telemetry = record.telemetry()?;
    assert!(!telemetry.is_empty());
    texts.push(("telemetry".to_owned(), format!("{telemetry:?}")));
    Ok(texts)
}

#[test]
fn an_anonymized_copy_reads_like_the_record_and_names_no_host_user_or_device() -> TestResult {
    let lab = Lab::on("turing")?;
    let out = lab.arg("home/alice/out");
    let more = ["--mechanism=exclusive,time-slicing", "--label=node=rack-12"];
    let mut command = lab.matrix(&out, &more);
    command.env("CUDA_VISIBLE_DEVICES", "0");
    finish(command)?.ended_with(0)?;
    let before = lab.record(&out)?;
    let hostname = before.provenance.host["hostname"].clone();
    let secrets = [before.device.uuid.as_str(), "alice", "rack-12"];
    let whole = std::fs::read_to_string(lab.path("home/alice/out/record.json"))?;
    for secret in secrets {
        assert!(whole.contains(secret), "{secret} is not in the record");
    }

    let copy = ["report", out.as_str(), "--anonymize=copies/one"];
    finish(lab.gpubench(copy))?.ended_with(0)?;
    for (name, text) in texts(&lab.path("copies/one"))? {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {name}");
        }
    }
    let after = lab.record("copies/one")?;
    assert_ne!(after.provenance.host["hostname"], hostname);
    assert_eq!(after.provenance.labels.len(), 0);
    assert_eq!(after.provenance.command, ["removed"]);
    assert_eq!((&after.matrix, &after.cells), (&before.matrix, &before.cells));

    // The copy is scored again, drawn and compared, and is the same device as another copy.
    for args in [
        &["report", "copies/one", "--format=html"][..],
        &["report", out.as_str(), "--anonymize=copies/two"],
        &["diff", "--advisory", "copies/one", "--", "copies/two"],
    ] {
        finish(lab.gpubench(args))?.ended_with(0)?;
    }
    // A folder that exists is not written to, and nothing is copied of two records.
    for args in [
        &["report", out.as_str(), "--anonymize=copies/one"][..],
        &["report", "copies/one", "copies/two", "--anonymize=three"],
        &["report", "copies/one", "--anonymize=three", "--format=md"],
    ] {
        finish(lab.gpubench(args))?.ended_with(2)?;
    }
    assert!(!lab.path("three").exists());
    Ok(())
}
