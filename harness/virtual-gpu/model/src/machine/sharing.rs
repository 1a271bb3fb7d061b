//! MPS, time-slice levels and planted defects in a machine file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, Noise, SLICE_US_MAX, wrong};
use crate::state::ONE;

/// MPS of the machine's driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mps {
    /// Maximum number of clients of one server.
    pub clients: u32,
    /// SMs of a chunk of a static partition; 0 if the driver has no static partitions.
    pub chunk_sms: u32,
    /// Recovery time of a server after the last client affected by a fault has disconnected.
    pub recovery_ms: u64,
    /// Time that a new client needs to connect to the server.
    pub connect_us: u64,
    /// Newest version of the MPS interface: 2, or 3, which limits the memory of control groups.
    #[serde(default = "second")]
    pub protocol: u32,
    /// A client sees its pinned-memory limit as total memory, as the MPS documentation says;
    /// otherwise the limit shows in free memory only.
    #[serde(default = "super::yes")]
    pub limit_in_total: bool,
    /// A memory limit that names a GPU which the client does not see drops all memory limits of the
    /// client, that of its namespace included, from version 3 of the interface on.
    #[serde(default = "super::yes")]
    pub unseen_gpu_drops_limits: bool,
    /// The limits of a server bound those of its namespaces. Driver 615 limits only the server's
    /// default namespace by them.
    #[serde(default)]
    pub server_bounds_namespaces: bool,
    /// `server create` refuses a GPU that the daemon does not have. Driver 615 reports success, and
    /// the server exits.
    #[serde(default)]
    pub unknown_gpu_refused: bool,
    /// Device memory of a server; absent: that of a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_mib: Option<u64>,
    /// Device memory of a client's context; absent: that of a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_mib: Option<u64>,
}

/// The default version of the interface.
const fn second() -> u32 {
    2
}

/// Length of a time slice at each level that an administrator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceLevels {
    /// Level `short`.
    pub short_us: u64,
    /// Level `medium`.
    pub medium_us: u64,
    /// Level `long`.
    pub long_us: u64,
}

/// Defects that the machine plants, for tests that gpubench detects them. None by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Defects {
    /// Share of its DRAM bandwidth that a MIG instance loses to a neighbour that saturates its own.
    pub mig_dram_leak: f64,
    /// The same for L2 bandwidth.
    pub mig_l2_leak: f64,
    /// Share of its speed that a kernel bound by arithmetic loses while another context has work,
    /// whatever the mechanism.
    pub neighbour_slows_compute: f64,
    /// The same for kernels bound by DRAM.
    pub neighbour_slows_dram: f64,
    /// The same for kernels bound by L2.
    pub neighbour_slows_l2: f64,
    /// The same for copies over the host link.
    pub neighbour_slows_copies: f64,
    /// Faults reach the other compute instances of a GPU instance.
    pub fault_crosses_compute_instances: bool,
    /// Faults reach every context on the device.
    pub fault_crosses_contexts: bool,
    /// Probability that a contained fault reaches each other context.
    pub fault_escape: f64,
    /// MPS keeps faults with the client that caused them.
    pub mps_contains_faults: bool,
    /// The death of an MPS client with work queued ends the other clients, also where the fault
    /// table leaves them unharmed.
    pub mps_kill_reaches_peers: bool,
    /// Relative error of the SMs that MPS grants for a percentage: 0.1 is a tenth more.
    pub mps_percentage_error: f64,
    /// MPS does not apply percentages.
    pub mps_percentage_ignored: bool,
    /// Clients of MPS cannot connect to their daemon and are time-sliced, without an error.
    pub mps_unreachable: bool,
    /// Clients of MPS have none of the limits of their namespace, without an error.
    pub mps_namespaces_ignored: bool,
    /// A process that names a MIG instance gets another one.
    pub mig_instances_swapped: bool,
    /// Green contexts run on all SMs of their context.
    pub green_contexts_whole: bool,
    /// Every context can be current to only one thread at a time, as a green one.
    pub contexts_of_one_thread: bool,
    /// Relative error of the SM time that NVML reports of the first process on the device, up to
    /// 100 %.
    pub nvml_share_error: f64,
    /// Every stream gets the default priority, without an error.
    pub one_stream_priority: bool,
    /// Relative excess that memory limits of MPS allow.
    pub mps_memory_overshoot: f64,
    /// Launches of more threads than this end in an illegal instruction; 0 for none.
    pub illegal_instruction_threads: u32,
    /// Launches of this many threads, from the first number to the second, write wrong results
    /// while another process has a context: one bit of their output stays wrong. Only sampled
    /// launches do; [0, 0] for none.
    pub wrong_result_threads: [u32; 2],
    /// Only this one of those launches of a process, counted from 1, flips a bit; 0 for all.
    pub bit_flips_in_launch: u32,
    /// Those launches write to the buffers of another process, and that process to theirs.
    pub buffers_swapped: bool,
    /// Relative excess that the memory cap of the HAMi stand-in allows.
    pub hami_memory_overshoot: f64,
    /// Documented bypasses of HAMi-core that the stand-in lacks: `arrays`, `pools`, `per-thread`,
    /// `globals`, `ipc`, `graphs`, `graph-memory`, `cooperative`, `durations`.
    pub hami_closed: Vec<String>,
    /// How long an allocation in a region of the HAMi stand-in waits for the lock of a process that
    /// was killed while it allocated.
    pub hami_lock_stale_ms: u64,
    /// Time from a process's first launch during which the limiter of the HAMi stand-in lets every
    /// launch through.
    pub hami_limiter_start_ms: u64,
    /// Relative excess that the limiter of the HAMi stand-in allows.
    pub hami_sm_error: f64,
    /// The limiter acts in steps of 120 ms: launches pass in the first part of each step, which is
    /// the limit, and wait in the rest. It replaces HAMi-core's token bucket, which follows
    /// utilisation and keeps no exact share.
    pub hami_limiter_paced: bool,
    /// Xid that follows a fatal fault, as if the device had failed; 0 for none.
    pub fault_xid: u32,
    /// Recovery action that NVML reports after a fatal fault (field 230); 0 for none.
    pub fault_recovery_action: u32,
    /// Corrected memory errors that each fatal fault leaves.
    pub fault_ecc_corrected: u32,
    /// Uncorrected memory errors that each fatal fault leaves.
    pub fault_ecc_uncorrected: u32,
    /// A fatal fault leaves a memory row to be remapped at the next reset.
    pub fault_remap_pending: bool,
    /// The HAMi stand-in does not find its process on the device and does not limit launches.
    pub hami_pid_hidden: bool,
}

impl Defects {
    /// The bytes that a memory limit of MPS allows, planted excess included.
    pub fn with_overshoot(&self, limit: u64) -> u64 {
        (limit as f64 * (1.0 + self.mps_memory_overshoot)) as u64
    }
}

/// Documented bypasses of HAMi-core that its stand-in can lack.
const BYPASSES: [&str; 9] = [
    "arrays",
    "pools",
    "per-thread",
    "globals",
    "ipc",
    "graphs",
    "graph-memory",
    "cooperative",
    "durations",
];

impl Machine {
    /// Every planted defect as its line in the file; includes perfect isolation.
    pub fn planted(&self) -> Vec<String> {
        let isolated = self.scheduler.isolated.then(|| "scheduler.isolated = true".to_owned());
        let text = |defects: &Defects| toml::to_string(defects).unwrap_or_default();
        let (own, none) = (text(&self.defects), text(&Defects::default()));
        let differing = own.lines().zip(none.lines()).filter(|(own, none)| own != none);
        let lines = differing.map(|(own, _)| format!("defects.{own}"));
        isolated.into_iter().chain(lines).collect()
    }

    /// All planted noise as its lines in the file: every value above zero.
    pub fn noise_lines(&self) -> Vec<String> {
        let Noise { request, epoch, epoch_ms, session, call, turn, recovery, warm_up, warm_up_s } =
            self.noise;
        let spreads = [
            ("request", request),
            ("epoch", epoch),
            ("session", session),
            ("call", call),
            ("turn", turn),
            ("recovery", recovery),
            ("warm_up", warm_up),
        ];
        let drawn = spreads.into_iter().filter(|(_, sd)| *sd != 0.0);
        drawn
            .map(|(key, sd)| match key {
                "epoch" => format!("noise.epoch = {sd} (every {epoch_ms} ms)"),
                "warm_up" => format!("noise.warm_up = {sd} (over {warm_up_s} s)"),
                _ => format!("noise.{key} = {sd}"),
            })
            .collect()
    }

    pub fn mps_server_bytes(&self) -> u64 {
        let own = self.mps.as_ref().and_then(|mps| mps.server_mib);
        own.unwrap_or(self.memory.context_mib) << 20
    }

    pub fn mps_client_bytes(&self) -> u64 {
        let own = self.mps.as_ref().and_then(|mps| mps.client_mib);
        own.unwrap_or(self.memory.context_mib) << 20
    }

    /// Time slice at a level: 0 default, 1 short, 2 medium, 3 long; `None` if it cannot be set.
    pub fn slice_ns(&self, level: u32) -> Option<u64> {
        let levels = self.scheduler.levels?;
        let us = match level {
            0 => self.scheduler.slice_us,
            1 => levels.short_us,
            2 => levels.medium_us,
            3 => levels.long_us,
            _ => return None,
        };
        Some(us * 1000)
    }

    /// SMs that an MPS client with this percentage can use of `sms`, with the planted error:
    /// rounded down to pairs of SMs, and no less than the smallest partition. An H200 gave 8 of its
    /// 132 at 1 %, 12 at 10 % and 42 at 33 % (reports/facts/h200_580.159.04/mps-percentages.txt).
    pub fn mps_sms(&self, percentage: u32, sms: u32) -> u32 {
        if self.defects.mps_percentage_ignored {
            return sms;
        }
        let percent = f64::from(percentage) * (1.0 + self.defects.mps_percentage_error);
        // Keeps floating-point error from losing an SM of an integer product.
        let wanted = (f64::from(sms) * percent / 100.0 + 1e-9).floor() as u32;
        let major = self.compute_capability().0;
        let ((least, _), (_, step)) = (granularity(major, false), granularity(major, true));
        (wanted / step * step).clamp(least.min(sms), sms)
    }

    pub(super) fn check_sharing(&self, path: &str) -> Result<(), MachineError> {
        let defects = &self.defects;
        let shares = [
            ("defects.mig_dram_leak", defects.mig_dram_leak),
            ("defects.mig_l2_leak", defects.mig_l2_leak),
            ("defects.neighbour_slows_compute", defects.neighbour_slows_compute),
            ("defects.neighbour_slows_dram", defects.neighbour_slows_dram),
            ("defects.neighbour_slows_l2", defects.neighbour_slows_l2),
            ("defects.neighbour_slows_copies", defects.neighbour_slows_copies),
        ];
        for (key, share) in shares {
            if !(0.0..1.0).contains(&share) {
                return wrong(path, key, share, "0 or more and less than 1");
            }
        }
        for bypass in &self.defects.hami_closed {
            if !BYPASSES.contains(&bypass.as_str()) {
                let accepted = "arrays, pools, per-thread, globals, ipc, graphs, graph-memory, \
                                cooperative, durations";
                return wrong(path, "defects.hami_closed", bypass, accepted);
            }
        }
        let levels = self.scheduler.levels;
        let slices = levels.map(|levels| [levels.short_us, levels.medium_us, levels.long_us]);
        let mut slices = slices.into_iter().flatten();
        if let Some(us) = slices.find(|us| !(1..=SLICE_US_MAX).contains(us)) {
            let accepted = "time slices of 1 to 3600000000, an hour";
            return wrong(path, "scheduler.levels", us, accepted);
        }
        Ok(())
    }
}

/// How SMs can be divided: the smallest partition, and the multiple that partitions have
/// (CUDA driver API 12.4 to 12.9, `cuDevSmResourceSplitByCount`: 1 on compute capability 6, 2 on 7,
/// of which 4 at least on 8, and 8 from 9 on unless co-scheduling is given up).
pub const fn granularity(major: u32, ignore_coscheduling: bool) -> (u32, u32) {
    match (major, ignore_coscheduling) {
        (0..=6, _) => (1, 1),
        (7, _) => (2, 2),
        (8, _) => (4, 2),
        (_, true) => (2, 2),
        (_, false) => (8, 8),
    }
}

/// A share as a fixed-point number.
pub(super) fn fixed_point(share: f64) -> u64 {
    (share * ONE as f64).round() as u64
}
