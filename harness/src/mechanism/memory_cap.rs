//! A limit on the memory of each tenant, for every mechanism that sets one: its size, the
//! allocation that exceeds it, and its two proofs.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use gpubench_record::Proof;
use serde::Serialize;

use super::host::RunId;
use super::interface::Requirement;
use super::{HostFacts, Observation};

/// Part of the limit by which a tenant's allocation exceeds it. The proof asks whether the limiter
/// acts; how far a tenant gets over its limit is a score, with a level up to 10 %.
const BEYOND: f64 = 0.25;

/// The limit refuses what exceeds it by far.
pub(super) const OVER_LIMIT: Requirement =
    Requirement::once("an allocation beyond the limit is refused");
/// Tenants see the limit as their memory.
pub(super) const SHOWN: Requirement =
    Requirement::at_open("the memory that each tenant sees is its limit");

/// A percentage of the device's memory.
pub(super) fn part_mib(facts: &HostFacts, pct: u32) -> u64 {
    facts.memory_mib * u64::from(pct) / 100
}

/// Size of an allocation that a limit must refuse: a quarter more than the limit, and at most half
/// way from the limit to the memory of the device, which itself must have room for it.
pub(super) fn beyond_bytes(facts: &HostFacts, limit_mib: u64) -> u64 {
    let half_way_mib = facts.memory_mib.saturating_sub(limit_mib) / 2;
    let quarter_mib = (limit_mib as f64 * BEYOND) as u64;
    (limit_mib + quarter_mib.min(half_way_mib).max(1)) << 20
}

/// Whether an allocation beyond its limit was refused to every tenant.
pub(super) fn over_limit(observed: &Observation) -> Option<Proof> {
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    const OUT_OF_MEMORY: i32 = 2;
    let tried: Vec<_> = observed
        .tenants
        .iter()
        .filter_map(|tenant| Some((tenant, tenant.over_limit.as_ref()?)))
        .collect();
    if tried.is_empty() {
        return None;
    }
    let holds = tried.len() == observed.tenants.len()
        && tried.iter().all(|(_, tried)| tried.refused_with == Some(OUT_OF_MEMORY));
    let reported: Vec<String> = tried
        .iter()
        .map(|(tenant, tried)| {
            let result = tried
                .refused_with
                .map_or_else(|| "granted".to_owned(), |code| format!("refused with {code}"));
            format!("{}: {} MiB {result}", tenant.name(), tried.bytes >> 20)
        })
        .collect();
    Some(Proof { limiter: holds, ..OVER_LIMIT.proof(holds, reported.join(", ")) })
}

/// Whether the memory that every tenant sees is its limit.
pub(super) fn shown(limit_mib: u64, observed: &Observation) -> Proof {
    let reported: Vec<Option<u64>> = observed
        .tenants
        .iter()
        .map(|tenant| Some(tenant.number("memory_total_bytes")? >> 20))
        .collect();
    let holds = reported.iter().all(|mib| *mib == Some(limit_mib));
    let evidence = format!("the limit is {limit_mib} MiB, tenants see {reported:?} MiB");
    SHOWN.proof(holds, evidence)
}

// The host's control groups (version 2): whether a group can limit the device memory of a tenant,
// and how a process joins a group.
//
// The kernel shows groups below one folder. A group is a folder that a process with write access
// makes, a process joins when its id is written to `cgroup.procs`, and a child is in its parent's
// group. If the kernel has the controller of device memory (6.14), a group has limits only if its
// parent enables the controller (MPS documentation, release 615, "MPS v3 Memory Partitioning");
// otherwise the driver counts by itself.

/// The mount point of version 2 if version 1 is not in use.
const MOUNTED: &str = "/sys/fs/cgroup";
/// The controller of device memory.
const CONTROLLER: &str = "dmem";

/// The tree of control groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlGroups {
    /// Its root.
    pub path: PathBuf,
    /// Why no group in it can have a limit on device memory, with the remedy.
    pub problem: Option<(String, String)>,
}

impl ControlGroups {
    /// The tree at a path, else at its mount point; `None` for version 1.
    #[must_use]
    pub fn find(at: Option<&Path>) -> Option<Self> {
        let path = at.unwrap_or(Path::new(MOUNTED));
        // Only version 2 has this file at its root.
        let found = path.join("cgroup.controllers").is_file();
        found.then(|| Self { path: path.to_path_buf(), problem: problem(path) })
    }

    /// The path of a new group.
    #[must_use]
    pub fn fresh(&self) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Without `/proc` a group of that name can exist, and making it is refused.
        let run = RunId::own().map_or_else(|_| std::process::id().to_string(), |run| run.short());
        self.path.join(format!("gpubench-{run}-{number}"))
    }
}

fn problem(root: &Path) -> Option<(String, String)> {
    let passed_on = root.join("cgroup.subtree_control");
    let shown = root.display();
    let in_kernel = root.join(format!("{CONTROLLER}.capacity")).is_file();
    // An unreadable list reads as one without the controller, which waives the mechanism.
    let text = std::fs::read_to_string(&passed_on).unwrap_or_default();
    if in_kernel && !text.split_whitespace().any(|name| name == CONTROLLER) {
        return Some((
            format!("{shown} does not pass the controller {CONTROLLER} on to its groups"),
            format!("echo +{CONTROLLER} > {}", passed_on.display()),
        ));
    }
    let locked = OpenOptions::new().write(true).open(&passed_on).err()?;
    Some((
        format!("no control group can be made in {shown}: {locked}"),
        "run as root, with a writable cgroup file system".to_owned(),
    ))
}

/// Moves a process into a group.
///
/// # Errors
/// When the group is missing, or refuses the process.
pub fn join(group: &Path, pid: u32) -> std::io::Result<()> {
    let members = group.join("cgroup.procs");
    let mut file = OpenOptions::new().append(true).create(true).open(members)?;
    file.write_all(format!("{pid}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::{ControlGroups, HostFacts, beyond_bytes, join, over_limit, shown};
    use crate::mechanism::{Observation, OverLimit, TenantObservation};

    fn observed(tenants: Vec<TenantObservation>) -> Observation {
        Observation { tenants, ..Observation::new(Condition::C, vec![7, 8]) }
    }

    #[test]
    fn the_tried_allocation_exceeds_every_scored_overshoot_and_fits_the_device() {
        let facts = HostFacts { memory_mib: 80_000, ..HostFacts::default() };
        for (limit_mib, tried_mib) in [(40_000, 50_000), (8_000, 10_000), (76_000, 78_000)] {
            assert_eq!(beyond_bytes(&facts, limit_mib) >> 20, tried_mib);
        }
    }

    #[test]
    fn every_tenant_must_be_refused_an_allocation_beyond_the_limit() {
        let with = |results: &[Option<i32>]| {
            let mut tenants = vec![TenantObservation::default(), TenantObservation::default()];
            for (tenant, &refused_with) in tenants.iter_mut().zip(results) {
                let bytes = 1 << 30;
                tenant.over_limit = Some(OverLimit { bytes, refused_with });
            }
            over_limit(&observed(tenants)).map(|proof| proof.holds)
        };
        assert_eq!(with(&[Some(2), Some(2)]), Some(true));
        assert_eq!(with(&[Some(2), None]), Some(false));
        assert_eq!(with(&[Some(2), Some(1)]), Some(false));
        assert_eq!(with(&[Some(2)]), Some(false), "one of two did not try");
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn every_tenant_must_see_its_limit_as_its_memory() {
        for (mib, expected) in [(Some(8_192), true), (Some(16_384), false), (None, false)] {
            let reported =
                mib.map(|mib: u64| ("memory_total_bytes".to_owned(), (mib << 20).to_string()));
            let tenant = TenantObservation {
                facts: reported.into_iter().collect(),
                ..TenantObservation::default()
            };
            let proof = shown(8_192, &observed(vec![tenant]));
            assert_eq!(proof.holds, expected, "{proof:?}");
        }
    }

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn a_tree_reports_why_its_groups_can_have_no_limit() -> TestResult {
        let dir = tempfile::tempdir()?;
        let find = || ControlGroups::find(Some(dir.path()));
        assert_eq!(find(), None, "the first version");
        std::fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n")?;
        let reason = || find().and_then(|found| found.problem).map(|(reason, _)| reason);
        let read_only = reason().ok_or("a tree without a file to write")?;
        assert!(read_only.contains("no control group can be made"), "{read_only}");
        std::fs::write(dir.path().join("cgroup.subtree_control"), "memory\n")?;
        assert_eq!(reason(), None, "the driver counts by itself");
        std::fs::write(dir.path().join("dmem.capacity"), "nvidia/x/vidmem 1\n")?;
        let (why, remedy) = find().and_then(|found| found.problem).ok_or("no problem found")?;
        assert!(why.contains("does not pass the controller dmem on"), "{why}");
        assert!(remedy.starts_with("echo +dmem > "), "{remedy}");
        std::fs::write(dir.path().join("cgroup.subtree_control"), "memory dmem\n")?;
        assert_eq!(reason(), None);
        let group = find().ok_or("no tree")?.fresh();
        assert!(join(&group, 7).is_err(), "the group does not exist");
        std::fs::create_dir(&group)?;
        join(&group, 7)?;
        join(&group, 8)?;
        assert_eq!(std::fs::read_to_string(group.join("cgroup.procs"))?, "7\n8\n");
        Ok(())
    }
}
