//! Variables of the user's shell: processes of a run inherit a list alone, and
//! `CUDA_VISIBLE_DEVICES` is the set of devices that gpubench chooses from.

use crate::support::{Error, Finished, Lab, TestResult, finish, program};
use gpubench_record::RunRecord;

/// The shortest profile, with plain MPS.
const PROFILE: &str = concat!("mechanisms = [\"mps\"]\n", include_str!("data/short.toml"));

/// Variables that change what is measured where a process inherits them.
const PLANTED: [(&str, &str); 5] = [
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"),
    ("CUDA_VISIBLE_DEVICES", "7"),
    ("CUDA_MPS_PIPE_DIRECTORY", "/nowhere"),
    ("LIBCUDA_LOG_LEVEL", "4"),
    ("NVIDIA_TF32_OVERRIDE", "0"),
];

fn retention(record: &RunRecord) -> Option<f64> {
    let mut rows = record.matrix.iter();
    let row = rows.find(|row| row.mechanism == "mps" && row.sub_axis.as_deref() == Some("sm"))?;
    Some(row.retention.as_ref()?.value)
}

#[test]
fn variables_of_the_shell_change_no_measurement() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    finish(lab.matrix("plain", &[]))?.ended_with(0)?;
    let mut planted = lab.matrix("planted", &[]);
    planted.envs(PLANTED);
    let text = finish(planted)?.ended_with(0)?.text();
    for file in ["samples.parquet", "telemetry.parquet", "latencies.hlog"] {
        let read = |out: &str| std::fs::read(lab.path(out).join(file));
        assert!(read("plain")? == read("planted")?, "{file} differs");
    }
    let (plain, planted) = (lab.record("plain")?, lab.record("planted")?);
    assert!(retention(&plain).is_some_and(|value| value < 0.9));
    assert_eq!(retention(&plain), retention(&planted));
    let mut names = PLANTED.map(|(name, _)| name);
    names.sort_unstable();
    let dropped = &planted.provenance.dropped_variables;
    for name in names {
        assert!(dropped.iter().any(|one| one == name), "{name}: {dropped:?}");
    }
    assert!(text.contains("not inherited: CUDA_MPS_ACTIVE_"), "{text}");
    let kept = &plain.provenance.dropped_variables;
    assert!(!kept.iter().any(|one| names.contains(&one.as_str())));
    Ok(())
}

/// `gpubench` under a shell with these assignments, on a virtual GPU that the environment names.
fn on_a_device(lab: &Lab, assignments: &str, arguments: &str) -> Result<Finished, Error> {
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", lab.machine(), "--"]);
    let script = format!("{assignments} {} {arguments}", program().display());
    command.args(["sh", "-c", &script]);
    finish(command)
}

#[test]
fn visible_devices_are_an_allotment() -> TestResult {
    let lab = Lab::on("a100-80")?;
    for hidden in ["", "-1", "9", "GPU-0", "MIG-1"] {
        let run = on_a_device(&lab, &format!("CUDA_VISIBLE_DEVICES={hidden}"), "plan")?;
        let text = run.ended_with(3)?.stderr;
        let named = format!("no device: CUDA_VISIBLE_DEVICES=\"{hidden}\" leaves none");
        assert!(text.contains(&named), "{text}");
    }
    for allotted in ["0", "0,9", "GPU-"] {
        // Beginnings of the UUID need a character of it.
        let uuid = "$(nvidia-smi -L | sed 's/.*UUID: \\(GPU-..\\).*/\\1/')";
        let value = allotted.replace("GPU-", uuid);
        on_a_device(&lab, &format!("CUDA_VISIBLE_DEVICES={value}"), "plan")?.ended_with(0)?;
    }
    // The GPU of an allotted instance is outside of the allotment.
    let instance = "nvidia-smi -mig 1 > /dev/null; nvidia-smi --gpu-reset > /dev/null; \
                    nvidia-smi mig -cgi 9 -C > /dev/null; \
                    export CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | sed -n 's/.*\\(MIG-[^)]*\\)).*/\\1/p');";
    let text = on_a_device(&lab, instance, "plan --device 0")?
        .ended_with(2)?
        .stderr;
    for part in [
        "--device GPU-",
        "is not in CUDA_VISIBLE_DEVICES=\"MIG-",
        "(accepted: MIG-",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    Ok(())
}
