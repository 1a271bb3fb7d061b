//! A device in MIG mode, with instances and without: mechanisms that `doctor` calls available run
//! in the instances, and mechanisms that need the whole device are waived.

use crate::support::mechanism::{outcome, row};
use crate::support::resident::Resident;
use crate::support::{Error, Finished, Lab, TestResult, finish, quick_hopper};
use gpubench_record::{OutcomeKind, RunRecord};
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::mig;
use serde_json::Value;

/// Half of an H100.
const HALF: &str = "3g.40gb";
const NO_WHOLE_DEVICE: &str = "MIG mode is on, so there is no whole device";

/// A `hopper` in MIG mode with this many instances of half its size.
struct Divided {
    host: Resident,
    device: Device,
}

impl Divided {
    fn new(halves: usize) -> Result<Self, Error> {
        let host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
        let device = host.open()?;
        let machine = device.machine();
        let mig = machine.mig.as_ref().ok_or("no MIG")?;
        let index = mig.profile.iter().position(|one| one.name == HALF);
        let index = u32::try_from(index.ok_or("no half")?)?;
        let slices = mig.profile[index as usize].slices;
        device.transact(|state, _| {
            mig::set_mode(state, machine, true);
            for _ in 0..halves {
                let instance = mig::create_instance(state, machine, index, None)?;
                mig::create_engine(state, machine, instance, slices)?;
            }
            Ok::<(), mig::MigError>(())
        })??;
        Ok(Self { host, device })
    }

    fn run(&self, verb: &[&str], more: &[&str]) -> Result<Finished, Error> {
        let mut command = self.host.gpubench(verb);
        command.args(["--profile", "short.toml"]).args(more);
        finish(command)
    }

    fn matrix(&self, out: &str, more: &[&str]) -> Result<Finished, Error> {
        self.run(&["matrix", "--out", out], more)?.ended_with(0)
    }

    /// The report of `doctor`, its status, and the mechanisms that it calls available.
    fn doctor(&self, more: &[&str]) -> Result<(Value, Option<i32>, Vec<String>), Error> {
        let done = self.run(&["doctor", "--format", "json"], more)?;
        let report: Value = serde_json::from_str(&done.stdout)?;
        let all = report["mechanisms"].as_array().ok_or("no mechanisms")?;
        let available = all.iter().filter(|one| one["availability"]["availability"] == "available");
        let names = available.filter_map(|one| one["variant"]["mechanism"].as_str());
        let names = names.map(str::to_owned).collect();
        Ok((report, done.code, names))
    }
}

/// The available mechanisms are measured and proved; all others are waived.
fn agrees(record: &RunRecord, available: &[String]) -> TestResult {
    for one in &record.mechanisms {
        let (kind, reason, _) = outcome(record, &one.name)?;
        if available.contains(&one.name) {
            assert_eq!(kind, OutcomeKind::Measured, "{}: {reason}", one.name);
            let proofs = &row(record, &one.name)?.proof;
            assert!(!proofs.is_empty() && proofs.iter().all(|p| p.holds), "{proofs:?}");
        } else {
            assert_eq!(
                (kind, reason.as_str()),
                (OutcomeKind::Waived, NO_WHOLE_DEVICE),
                "{}",
                one.name
            );
        }
    }
    let mig_rows = record.matrix.iter().filter(|row| row.mechanism.starts_with("mig"));
    for row in mig_rows {
        let reason = row.outcome.reason.clone().unwrap_or_default();
        assert!(!reason.contains("no proof"), "{reason}");
        assert!(row.guarantee.is_none() && row.effectiveness.is_none(), "{row:?}");
    }
    Ok(())
}

#[test]
fn available_mechanisms_run_in_existing_instances() -> TestResult {
    let divided = Divided::new(2)?;
    let (report, code, available) = divided.doctor(&[])?;
    assert_eq!(
        (code, available.as_slice()),
        (Some(0), &["mig".to_owned(), "mig-mps".to_owned()][..])
    );
    assert_eq!(report["scope"], "first MIG instance");
    assert_eq!(report["device"]["sm_count"], 0, "no instance has all SMs");
    divided.matrix("out", &[])?;
    let record = divided.host.lab.record("out")?;
    assert_eq!(record.mechanisms.len(), gpubench::catalogue::names().len());
    agrees(&record, &available)?;
    // The victim keeps to its share, 3/7 of the 8 memory slices. The instance has 4 of them.
    let events = std::fs::read_to_string(divided.host.lab.path("out/events.jsonl"))?;
    assert!(
        events.contains("calibrated under mig[3g+3g], the victim for 0.857 of its instance"),
        "{}",
        events.lines().find(|line| line.contains("MIG mode is on:")).unwrap_or_default()
    );
    assert_eq!(divided.host.lab.journal(), "");
    Ok(())
}

#[test]
fn without_instances_a_run_needs_permission_to_create_them() -> TestResult {
    let divided = Divided::new(0)?;
    let none: Vec<String> = Vec::new();
    let (report, code, available) = divided.doctor(&["--no-reconfigure"])?;
    assert_eq!((code, &available), (Some(3), &none));
    assert!(report["device"]["name"].as_str().is_some(), "{report}");
    let effect = report["detectable_effect"]["reason"].as_str().unwrap_or_default();
    assert_eq!(effect, "MIG mode is on, and there is no instance");
    for verb in ["plan", "matrix"] {
        let waived = divided.run(&[verb, "--no-reconfigure"], &[])?.ended_with(3)?;
        let reason = format!("exclusive: {NO_WHOLE_DEVICE}");
        assert!(waived.stderr.contains(&reason), "{verb}: {}", waived.stderr);
    }
    let (_, code, available) = divided.doctor(&["--allow-reconfigure"])?;
    assert_eq!(
        (code, available.as_slice()),
        (Some(0), &["mig".to_owned(), "mig-mps".to_owned()][..])
    );
    divided.matrix("out", &["--allow-reconfigure", "--mechanism", "mig-mps"])?;
    agrees(&divided.host.lab.record("out")?, &available)?;
    let left =
        divided.device.transact(|state, _| (state.mig.current, mig::instances(state).count()))?;
    assert_eq!(left, (true, 0), "the state from before");
    assert_eq!(divided.host.lab.journal(), "");
    Ok(())
}
