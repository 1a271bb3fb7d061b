//! A device in MIG mode, with instances that somebody else made and with none: what is called
//! available runs, in the instances, and everything that needs the whole device is waived.

use std::path::Path;
use std::process::{Command, Output};

use gpubench_record::{OutcomeKind, RunRecord};
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::mig;
use gpubench_virtual_gpu::session::ENV;
use crate::support::mechanism::{Place, TestResult, device_that_stays, done, outcome, row, text};
use serde_json::Value;

/// Half of an H100.
const HALF: &str = "3g.40gb";
const CUT: &str = "MIG mode is on, so there is no whole device";

/// A `hopper` in MIG mode with so many halves, and folders of one's own.
struct Divided {
    device: Device,
    environment: Vec<(String, String)>,
    place: Place,
}

impl Divided {
    fn new(halves: usize) -> Result<Self, Told> {
        let place = Place::new("hopper")?;
        let file = place.path("machine.toml");
        std::fs::write(&file, include_str!("../../../profiles/machines/hopper.toml"))?;
        let program = Path::new(env!("CARGO_BIN_EXE_gpubench"));
        let environment = device_that_stays(program, &file, &place.path("cache"))?;
        let folder = environment.iter().find(|(name, _)| name == ENV);
        let device = Device::open(Path::new(&folder.ok_or("no device")?.1))?;
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
        Ok(Self {
            device,
            environment,
            place,
        })
    }

    fn run(&self, words: &[&str], more: &[&str]) -> std::io::Result<Output> {
        self.command(words, more).output()
    }

    fn command(&self, words: &[&str], more: &[&str]) -> Command {
        let mut command = self.place.gpubench(words);
        command
            .envs(self.environment.iter().cloned())
            .arg("--profile")
            .arg(self.place.path("short.toml"))
            .args(more);
        command
    }

    fn matrix(&self, out: &str, more: &[&str]) -> std::io::Result<Output> {
        let mut command = self.command(&["matrix"], more);
        command.arg("--out").arg(self.place.path(out)).output()
    }

    /// What doctor tells: the document, its status, and the mechanisms that it calls available.
    fn doctor(&self, more: &[&str]) -> Result<(Value, Option<i32>, Vec<String>), Told> {
        let output = self.run(&["doctor", "--format", "json"], more)?;
        let said: Value = serde_json::from_slice(&output.stdout)?;
        let all = said["mechanisms"].as_array().ok_or("no mechanisms")?;
        let there = all
            .iter()
            .filter(|one| one["availability"]["availability"] == "available");
        let names = there.filter_map(|one| one["variant"]["mechanism"].as_str());
        let names = names.map(str::to_owned).collect();
        Ok((said, output.status.code(), names))
    }
}

type Told = Box<dyn std::error::Error>;

/// What was called available is measured and proved, and nothing else is.
fn agrees(record: &RunRecord, available: &[String]) -> TestResult {
    for one in &record.mechanisms {
        let (kind, reason, _) = outcome(record, &one.name)?;
        if available.contains(&one.name) {
            assert_eq!(kind, OutcomeKind::Measured, "{}: {reason}", one.name);
            let proofs = &row(record, &one.name)?.proof;
            assert!(
                !proofs.is_empty() && proofs.iter().all(|p| p.holds),
                "{proofs:?}"
            );
        } else {
            assert_eq!(
                (kind, reason.as_str()),
                (OutcomeKind::Waived, CUT),
                "{}",
                one.name
            );
        }
    }
    let lost = record
        .matrix
        .iter()
        .filter(|row| row.mechanism.starts_with("mig"));
    for row in lost {
        let reason = row.outcome.reason.clone().unwrap_or_default();
        assert!(!reason.contains("no proof"), "{reason}");
        assert!(
            row.guarantee.is_none() && row.effectiveness.is_none(),
            "{row:?}"
        );
    }
    Ok(())
}

#[test]
fn what_doctor_calls_available_runs_in_instances_that_are_there() -> TestResult {
    let divided = Divided::new(2)?;
    let (said, code, available) = divided.doctor(&[])?;
    assert_eq!(
        (code, available.as_slice()),
        (Some(0), &["mig".to_owned(), "mig-mps".to_owned()][..])
    );
    assert_eq!(said["looked_at"], "first MIG instance");
    assert_eq!(said["device"]["sm_count"], 0, "nobody sees all of them");
    done(&divided.matrix("out", &[])?)?;
    let record = divided.place.record("out")?;
    assert_eq!(record.mechanisms.len(), gpubench::catalogue::names().len());
    agrees(&record, &available)?;
    // The victim keeps to its share of the device: 3/7 of 8 parts of memory, of which 4 are here.
    let warned = std::fs::read_to_string(divided.place.path("out/events.jsonl"))?;
    assert!(
        warned.contains("calibrated under mig[3g+3g], the victim for 0.857 of what it sees"),
        "{}",
        warned
            .lines()
            .find(|line| line.contains("MIG mode is on:"))
            .unwrap_or_default()
    );
    assert_eq!(divided.place.journal(), "");
    Ok(())
}

#[test]
fn without_instances_it_takes_leave_and_then_they_are_made() -> TestResult {
    let divided = Divided::new(0)?;
    let none: Vec<String> = Vec::new();
    let (said, code, available) = divided.doctor(&[])?;
    assert_eq!((code, &available), (Some(3), &none));
    assert!(said["device"]["name"].as_str().is_some(), "{said}");
    let effect = said["detectable_effect"]["reason"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(effect, "MIG mode is on, and there is no instance");
    for verb in ["plan", "matrix"] {
        let output = divided.run(&[verb], &[])?;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{verb}: {told}");
        assert!(
            told.contains(&format!("exclusive: {CUT}")),
            "{verb}: {told}"
        );
    }
    let leave = ["--allow-reconfigure"];
    let (_, code, available) = divided.doctor(&leave)?;
    assert_eq!(
        (code, available.as_slice()),
        (Some(0), &["mig".to_owned(), "mig-mps".to_owned()][..])
    );
    done(&divided.matrix("out", &["--allow-reconfigure", "--mechanism", "mig-mps"])?)?;
    agrees(&divided.place.record("out")?, &available)?;
    let left = divided
        .device
        .transact(|state, _| (state.mig.current, mig::instances(state).count()))?;
    assert_eq!(left, (true, 0), "as it was found");
    assert_eq!(divided.place.journal(), "");
    Ok(())
}
