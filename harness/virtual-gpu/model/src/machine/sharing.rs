//! What a machine file says about sharing beside turns: MPS, and planted defects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, Noise, TURN_US_MAX, ppm, wrong};
use crate::simulation::fault::FaultRules;
use crate::state::ONE;

/// The MPS of the machine's driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mps {
    /// Clients of one server at most.
    pub clients: u32,
    /// SMs of a chunk of a static partition; 0 if the driver has none.
    pub chunk_sms: u32,
    /// Static partitions keep SM faults apart.
    pub partitions_contain_sm_faults: bool,
    /// How long a server needs after the last client that a fault reached has left.
    pub recovery_ms: u64,
    /// What connecting to the server costs a new client.
    pub connect_us: u64,
    /// Newest version of its interface: 2, or 3, whose driver limits the memory of control groups.
    #[serde(default = "second")]
    pub protocol: u32,
    /// A limit on pinned memory is the total that a client is shown, as the documents of MPS have
    /// it; otherwise it shows only in what is free.
    #[serde(default = "super::yes")]
    pub limit_in_total: bool,
    /// Device memory that a server takes; absent: as much as any context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_mib: Option<u64>,
    /// Device memory that the context of a client takes; absent: as much as any context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_mib: Option<u64>,
}

/// The interface of every driver that says nothing about it.
const fn second() -> u32 {
    2
}

/// How long turns are at the levels that an administrator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceLevels {
    /// Short turns.
    pub short_us: u64,
    /// Medium turns.
    pub medium_us: u64,
    /// Long turns.
    pub long_us: u64,
}

/// Promises that the machine breaks, for tests of whoever should notice. All absent by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Defects {
    /// Share of its DRAM bandwidth that a MIG instance loses to a neighbour that saturates its own.
    pub mig_dram_leak: f64,
    /// The same of L2 bandwidth.
    pub mig_l2_leak: f64,
    /// Faults reach the other compute instances of a GPU instance.
    pub fault_crosses_compute_instances: bool,
    /// Faults reach every context on the device.
    pub fault_crosses_contexts: bool,
    /// Chance with which a fault that stays with its context reaches each other one all the same.
    pub fault_escape: f64,
    /// MPS keeps faults with the client that caused them.
    pub mps_contains_faults: bool,
    /// The death of an MPS client at work is a fault for the others.
    pub mps_kill_reaches_peers: bool,
    /// MPS gives clients this share more SMs than their percentage: 0.1 is a tenth more.
    pub mps_percentage_error: f64,
    /// MPS does not apply percentages at all.
    pub mps_percentage_ignored: bool,
    /// Clients of MPS do not reach their daemon, and silently take turns.
    pub mps_unreachable: bool,
    /// A process that names a MIG instance is shown another.
    pub mig_instances_swapped: bool,
    /// Green contexts run on every SM of their context.
    pub green_contexts_whole: bool,
    /// Memory limits of MPS let this share more through.
    pub mps_memory_overshoot: f64,
    /// Launches of more threads than this end in an illegal instruction; 0 for none.
    pub illegal_instruction_threads: u32,
    /// The HAMi stand-in's memory cap lets this share more through.
    pub hami_memory_overshoot: f64,
    /// Documented holes of HAMi-core that the stand-in has not: `arrays`, `pools`, `per-thread`,
    /// `globals`, `ipc`, `graphs`, `graph-memory`, `cooperative`, `durations`.
    pub hami_closed: Vec<String>,
    /// Who allocates in a region of the HAMi stand-in after another one was killed while it
    /// allocated waits so long for the lock of the dead.
    pub hami_lock_stale_ms: u64,
    /// From a process's first launch on, the limiter of the HAMi stand-in lets everything through
    /// for so long.
    pub hami_limiter_start_ms: u64,
    /// The limiter of the HAMi stand-in lets this share more through than its limit.
    pub hami_sm_error: f64,
    /// That limiter acts in steps of 120 ms: launches go in the first part of each, which is the
    /// limit, and wait in the rest. In place of the bucket of HAMi-core, which follows the
    /// utilisation and keeps to no share.
    pub hami_limiter_paced: bool,
    /// A fatal fault is followed by this Xid, as if the device itself had failed; 0 for none.
    pub fault_xid: u32,
    /// What NVML says must be done to the device once there was a fatal fault (field 230); 0 is
    /// nothing.
    pub fault_recovery_action: u32,
    /// Each fatal fault leaves so many corrected errors of the memory.
    pub fault_ecc_corrected: u32,
    /// The same of errors that could not be corrected.
    pub fault_ecc_uncorrected: u32,
    /// A fatal fault leaves a row of the memory to be remapped at the next reset.
    pub fault_remap_pending: bool,
    /// The HAMi stand-in does not find its process on the device, and leaves launches alone.
    pub hami_pid_hidden: bool,
}

impl Defects {
    /// What a memory limit of MPS lets through.
    #[must_use]
    pub fn let_through(&self, limit: u64) -> u64 {
        (limit as f64 * (1.0 + self.mps_memory_overshoot)) as u64
    }
}

/// Documented holes of HAMi-core that its stand-in can be without.
const HOLES: [&str; 9] = [
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
    /// Every defect that the machine plants, as its file says it; perfect isolation is one too.
    #[must_use]
    pub fn planted(&self) -> Vec<String> {
        let isolated = self
            .scheduler
            .isolated
            .then(|| "scheduler.isolated = true".to_owned());
        let text = |defects: &Defects| toml::to_string(defects).unwrap_or_default();
        let (own, none) = (text(&self.defects), text(&Defects::default()));
        let differing = own
            .lines()
            .zip(none.lines())
            .filter(|(own, none)| own != none);
        let lines = differing.map(|(own, _)| format!("defects.{own}"));
        isolated.into_iter().chain(lines).collect()
    }

    /// All noise that the machine plants, as its file says it: what is not zero.
    #[must_use]
    pub fn noise_lines(&self) -> Vec<String> {
        let Noise {
            request,
            epoch,
            epoch_ms,
            session,
            call,
            turn,
            recovery,
        } = self.noise;
        let spreads = [
            ("request", request),
            ("epoch", epoch),
            ("session", session),
            ("call", call),
            ("turn", turn),
            ("recovery", recovery),
        ];
        let drawn = spreads.into_iter().filter(|(_, sd)| *sd != 0.0);
        drawn
            .map(|(key, sd)| match key {
                "epoch" => format!("noise.epoch = {sd} (every {epoch_ms} ms)"),
                _ => format!("noise.{key} = {sd}"),
            })
            .collect()
    }

    /// How far faults reach on this machine.
    #[must_use]
    pub fn fault_rules(&self) -> FaultRules {
        let mps = self.mps.as_ref();
        FaultRules {
            mps_contained: self.defects.mps_contains_faults,
            partitions_contain_sm_faults: mps.is_some_and(|m| m.partitions_contain_sm_faults),
            cross_compute_instances: self.defects.fault_crosses_compute_instances,
            cross_contexts: self.defects.fault_crosses_contexts,
            escape_ppm: ppm(self.defects.fault_escape),
            mps_kill_reaches_peers: self.defects.mps_kill_reaches_peers,
            next_xid: self.defects.fault_xid,
            mps_recovery_ns: mps.map_or(0, |m| m.recovery_ms * 1_000_000),
            recovery_noise_ppm: ppm(self.noise.recovery),
        }
    }

    /// Device memory that an MPS server takes.
    #[must_use]
    pub fn mps_server_bytes(&self) -> u64 {
        let own = self.mps.as_ref().and_then(|mps| mps.server_mib);
        own.unwrap_or(self.memory.context_mib) << 20
    }

    /// Device memory that the context of an MPS client takes.
    #[must_use]
    pub fn mps_client_bytes(&self) -> u64 {
        let own = self.mps.as_ref().and_then(|mps| mps.client_mib);
        own.unwrap_or(self.memory.context_mib) << 20
    }

    /// A turn at a level: 0 default, 1 short, 2 medium, 3 long; `None` if it cannot be set.
    #[must_use]
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

    /// SMs that an MPS client with this percentage may use of `sms`: rounded down, at least one
    /// (MPS documentation, `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`), as far as the machine keeps to it.
    #[must_use]
    pub fn mps_sms(&self, percentage: u32, sms: u32) -> u32 {
        if self.defects.mps_percentage_ignored {
            return sms;
        }
        let percent = f64::from(percentage) * (1.0 + self.defects.mps_percentage_error);
        // Floating point must not lose an SM of a product that is whole.
        let wanted = (f64::from(sms) * percent / 100.0 + 1e-9).floor() as u32;
        wanted.clamp(1, sms)
    }

    pub(super) fn check_sharing(&self, path: &str) -> Result<(), MachineError> {
        let shares = [
            ("defects.mig_dram_leak", self.defects.mig_dram_leak),
            ("defects.mig_l2_leak", self.defects.mig_l2_leak),
        ];
        for (key, share) in shares {
            if !(0.0..1.0).contains(&share) {
                return wrong(path, key, share, "0 or more and less than 1");
            }
        }
        let escape = self.defects.fault_escape;
        if !(0.0..=1.0).contains(&escape) {
            return wrong(path, "defects.fault_escape", escape, "0 to 1");
        }
        let errors = [
            (
                "defects.mps_percentage_error",
                self.defects.mps_percentage_error,
            ),
            (
                "defects.mps_memory_overshoot",
                self.defects.mps_memory_overshoot,
            ),
            (
                "defects.hami_memory_overshoot",
                self.defects.hami_memory_overshoot,
            ),
            ("defects.hami_sm_error", self.defects.hami_sm_error),
        ];
        for (key, error) in errors {
            if !(-0.9..=10.0).contains(&error) {
                return wrong(path, key, error, "-0.9 to 10");
            }
        }
        for hole in &self.defects.hami_closed {
            if !HOLES.contains(&hole.as_str()) {
                let accepted = "arrays, pools, per-thread, globals, ipc, graphs, graph-memory, \
                                cooperative, durations";
                return wrong(path, "defects.hami_closed", hole, accepted);
            }
        }
        let levels = self.scheduler.levels;
        let turns = levels.map(|levels| [levels.short_us, levels.medium_us, levels.long_us]);
        let mut turns = turns.into_iter().flatten();
        if let Some(us) = turns.find(|us| !(1..=TURN_US_MAX).contains(us)) {
            let accepted = "turns of 1 to 3600000000, an hour";
            return wrong(path, "scheduler.levels", us, accepted);
        }
        if self.mps.as_ref().is_some_and(|mps| mps.clients == 0) {
            return wrong(path, "mps.clients", 0, "1 or more");
        }
        if let Some(mps) = &self.mps
            && !(2..=3).contains(&mps.protocol)
        {
            return wrong(path, "mps.protocol", mps.protocol, "2 or 3");
        }
        Ok(())
    }
}

/// A share as the model counts it.
pub(super) fn fixed(share: f64) -> u64 {
    (share * ONE as f64).round() as u64
}
