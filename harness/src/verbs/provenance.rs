//! The provenance of a run: this program, this host, this clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use gpubench_judge::score::plans_jitter;
use gpubench_record::{Plan, Provenance, excerpt};
use gpubench_run::{RunClock, rfc3339_now};
use gpubench_workloads::command::dropped;
use gpubench_workloads::timer_selftest::{Class, Punctuality, punctuality};
use procfs::Current as _;

use crate::error::{ExpectedError, WRITTEN_BYTES_MAX, read_text};

/// The fact of the host that names the GPUs which the same command line measured at the same time,
/// separated by commas; absent without any.
pub const OTHER_GPUS: &str = "other_gpus";

/// The provenance of a run that begins now. On the wall clock it includes the timer floor of the
/// host, which takes two seconds to measure, where the plan has jitter.
pub fn of_run(clock: &RunClock, plan: &Plan) -> Provenance {
    let mut provenance = without_timer(clock);
    if !clock.is_virtual() {
        let (floor_ns, class) = if plans_jitter(plan) {
            floor()
        } else {
            (BTreeMap::new(), "not measured: no jitter is planned".to_owned())
        };
        provenance.timer_floor_ns = floor_ns;
        provenance.host.insert(SELF_TEST_KEY.to_owned(), class);
    }
    provenance
}

/// The same without the timer floor.
pub fn without_timer(clock: &RunClock) -> Provenance {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut host = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        host.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("hostname", read("/proc/sys/kernel/hostname"));
    let cpu = procfs::CpuInfo::current().ok();
    put("cpu", cpu.and_then(|cpu| Some(cpu.model_name(0)?.to_owned())));
    let cores = std::thread::available_parallelism().ok().map(|n| n.to_string());
    put("cores", cores);
    put("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("cgroup_cpu_max", read("/sys/fs/cgroup/cpu.max"));
    Provenance {
        gpubench: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: rfc3339_now(),
        ended_at: None,
        command: std::env::args().collect(),
        host,
        labels: BTreeMap::new(),
        clock: clock.name().to_owned(),
        timer_floor_ns: BTreeMap::new(),
        dropped_variables: dropped(),
        visible_devices: None,
        victim_environment: None,
    }
}

// Labels of a run: from `GPUBENCH_LABELS`, from files that it names, and from the command line.

/// The variable with labels: `cluster=a,pool=h100,@/etc/podinfo/labels`.
pub const VARIABLE: &str = "GPUBENCH_LABELS";
const ACCEPTED: &str = "KEY=VALUE, without commas and quotes";

/// The labels of a run. Those of the command line replace those of the variable.
pub fn labels_of_run(
    flags: &[(String, String)],
) -> Result<BTreeMap<String, String>, ExpectedError> {
    let mut labels = match std::env::var(VARIABLE) {
        Ok(text) => of_variable(&text)?,
        Err(std::env::VarError::NotPresent) => BTreeMap::new(),
        Err(error) => return Err(refused(VARIABLE, &error.to_string())),
    };
    labels.extend(flags.iter().cloned());
    Ok(labels)
}

pub fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    let is_plain = |text: &str| !text.is_empty() && !text.contains([',', '"', '=', '@']);
    match parts {
        Some((key, value)) if is_plain(key) && is_plain(value) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("accepted: {ACCEPTED}")),
    }
}

fn of_variable(text: &str) -> Result<BTreeMap<String, String>, ExpectedError> {
    let mut labels = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        if let Some(path) = entry.strip_prefix('@') {
            labels.extend(of_file(Path::new(path))?);
        } else {
            labels.extend([label(entry).map_err(|_| refused(VARIABLE, entry))?]);
        }
    }
    Ok(labels)
}

/// A file with one label a line, the value in quotes or not: how Kubernetes mounts labels. Its own
/// labels may have an empty value, which says nothing and is left out.
fn of_file(path: &Path) -> Result<BTreeMap<String, String>, ExpectedError> {
    let text = read_text("labels", path, WRITTEN_BYTES_MAX)?;
    let mut labels = BTreeMap::new();
    for line in text.lines().map(|line| line.replace('"', "")) {
        if line.trim().is_empty() || line.trim().ends_with('=') {
            continue;
        }
        let place = path.display().to_string();
        labels.extend([label(&line).map_err(|_| refused(&place, &line))?]);
    }
    Ok(labels)
}

fn refused(place: &str, what: &str) -> ExpectedError {
    ExpectedError::Usage {
        problem: format!("{place}: \"{}\" is no label", excerpt(what)),
        remedy: Some(format!("accepted: {ACCEPTED}; or @FILE in {VARIABLE}")),
    }
}

// The identity of the device code of this build.

/// Hash over the PTX of every kernel, in the order of their catalogue.
pub fn ptx_hash() -> String {
    let kernels = gpubench_kernels::CATALOGUE.iter();
    hash_of(kernels.map(|kernel| [kernel.name, kernel.ptx]))
}

/// Hash over the name and the PTX of these kernels.
fn hash_of<'a>(kernels: impl Iterator<Item = [&'a str; 2]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in kernels.flatten() {
        // With the lengths, moving text from one part to the next changes the hash.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

// The timer floor of the host, measured before a run on the wall clock. Jitter below it has no
// level.

const SELF_TEST: Duration = Duration::from_secs(2);

/// Key of the class, or of the reason for no floor, among the facts of the host.
pub const SELF_TEST_KEY: &str = "timer_self_test";

/// The scheduling classes; tenants prefer the first.
pub const CLASSES: [(&str, Class); 2] = [("fifo", Class::Fifo), ("other", Class::Other)];

/// Lateness of wake-ups in nanoseconds, by the names in records.
pub fn by_name(found: &Punctuality) -> BTreeMap<String, u64> {
    [("p50", found.p50_ns), ("p99", found.p99_ns), ("p999", found.p999_ns), ("max", found.max_ns)]
        .map(|(name, ns)| (name.to_owned(), ns))
        .into()
}

/// Measures in the scheduling class of the tenants' issuer threads: real-time if this user may use
/// it, else the default class. Returns the figures and the class, or the reason for no figures.
pub fn floor() -> (BTreeMap<String, u64>, String) {
    let mut refused = Vec::new();
    for (name, class) in CLASSES {
        match punctuality(SELF_TEST, class, 1) {
            Ok(found) => return (by_name(&found), name.to_owned()),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let why = format!("not measured: {}", refused.join("; "));
    (BTreeMap::new(), why)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_come_from_entries_and_files() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("labels");
        std::fs::write(&path, "pool=\"h100\"\nzone=\"\"\n\nnvidia.com/gpu.count=\"8\"\n")?;
        let found = of_variable(&format!("cluster=a, pool=b,@{}", path.display()))?;
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        let expected = [("cluster", "a"), ("nvidia.com/gpu.count", "8"), ("pool", "h100")];
        assert_eq!(found, expected);
        for wrong in ["cluster", "=a", "cluster=", "a=b=c", "@/absent"] {
            assert!(of_variable(wrong).is_err(), "{wrong}");
        }
        assert_eq!(label("rack = 4"), Ok(("rack".to_owned(), "4".to_owned())));
        Ok(())
    }

    #[test]
    fn every_change_of_a_kernel_changes_the_hash() {
        let kernels: [&[[&str; 2]]; 7] = [
            &[["a", "x"], ["b", "yz"]],
            &[["a", "x"], ["b", "yw"]],
            &[["a", "x"], ["c", "yz"]],
            &[["b", "yz"], ["a", "x"]],
            &[["a", "xb"], ["", "yz"]],
            &[["a", "x"]],
            &[],
        ];
        let hashes = kernels.map(|of| hash_of(of.iter().copied()));
        assert_eq!(BTreeSet::from(hashes).len(), kernels.len());
    }
}
