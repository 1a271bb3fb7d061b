//! The range of every number in a machine file.
//!
//! The ranges hold any GPU with room to spare, and keep sums and products of the model far below
//! the range of its clock, which counts nanoseconds in 64 bits.

use super::{Machine, MachineError, wrong};

/// One minute: no driver call and no step of the device takes longer.
const MINUTE_NS: u64 = 60_000_000_000;
const HOUR_MS: u64 = 3_600_000;
/// 16 TiB.
const MEMORY_MIB: u64 = 1 << 24;
/// Instance profiles of one device.
const PROFILES_MAX: usize = 64;
/// A whole number with its key, and the smallest and largest that are accepted.
type Whole = (&'static str, u64, u64, u64);
/// The same for other numbers.
type Real = (&'static str, f64, f64, f64);

impl Machine {
    pub(super) fn check_ranges(&self, path: &str) -> Result<(), MachineError> {
        let whole = self.chip().into_iter().chain(self.sizes());
        let whole = whole.chain(self.times()).chain(self.sharing());
        for (key, found, least, most) in whole {
            if !(least..=most).contains(&found) {
                return wrong(path, key, found, format!("{least} to {most}"));
            }
        }
        for (key, found, least, most) in self.rates() {
            // A range contains no NaN.
            if !(least..=most).contains(&found) {
                return wrong(path, key, found, format!("{least} to {most}"));
            }
        }
        self.check_profiles(path)
    }

    fn chip(&self) -> Vec<Whole> {
        let gpu = &self.gpu;
        let of = |key, value: u32, least, most| (key, u64::from(value), least, most);
        vec![
            of("gpu.sm_count", gpu.sm_count, 1, 1024),
            of("gpu.max_threads_per_sm", gpu.max_threads_per_sm, 32, 65_536),
            of("gpu.max_blocks_per_sm", gpu.max_blocks_per_sm, 1, 1024),
            of("gpu.max_threads_per_block", gpu.max_threads_per_block, 32, 65_536),
            of("gpu.registers_per_sm", gpu.registers_per_sm, 1024, 1 << 24),
            of("gpu.shared_per_sm_kib", gpu.shared_per_sm_kib, 2, 1 << 16),
            of("gpu.shared_per_block_kib", gpu.shared_per_block_kib, 1, 1 << 16),
            of("gpu.schedulers_per_sm", gpu.schedulers_per_sm, 1, 64),
            of("gpu.fp32_lanes_per_clock", gpu.fp32_lanes_per_clock, 1, 65_536),
            of("gpu.fp64_lanes_per_clock", gpu.fp64_lanes_per_clock, 1, 65_536),
            of("gpu.int_lanes_per_clock", gpu.int_lanes_per_clock, 1, 65_536),
            of("gpu.sfu_lanes_per_clock", gpu.sfu_lanes_per_clock, 1, 65_536),
            of("gpu.tensor_ops_per_clock", gpu.tensor_ops_per_clock, 1, 1 << 20),
            of("gpu.l1_per_sm_kib", gpu.l1_per_sm_kib, 1, 1 << 16),
            of("gpu.l1_latency_cycles", gpu.l1_latency_cycles, 1, 100_000),
            of("gpu.shared_bytes_per_clock", gpu.shared_bytes_per_clock, 1, 65_536),
            of("gpu.atomics_per_clock", gpu.atomics_per_clock, 1, 65_536),
            of("gpu.sm_clock_mhz", gpu.sm_clock_mhz, 1, 100_000),
            of("gpu.memory_clock_mhz", gpu.memory_clock_mhz, 1, 100_000),
            of("gpu.video_clock_mhz", gpu.video_clock_mhz.unwrap_or(1), 1, 100_000),
            of("gpu.memory_bus_bits", gpu.memory_bus_bits, 1, 1 << 20),
            of("gpu.smallest_groups", gpu.smallest_groups.unwrap_or(1), 1, 1024),
            of("pcie.generation", self.pcie.generation, 1, 16),
            of("pcie.width", self.pcie.width, 1, 64),
        ]
    }

    fn sizes(&self) -> Vec<Whole> {
        let (memory, total) = (&self.memory, self.memory.total_mib);
        let mps = self.mps.as_ref();
        let server = mps.and_then(|mps| mps.server_mib).unwrap_or(0);
        let client = mps.and_then(|mps| mps.client_mib).unwrap_or(0);
        vec![
            ("memory.total_mib", total, 1, MEMORY_MIB),
            ("memory.context_mib", memory.context_mib, 0, total),
            ("memory.l2_kib", memory.l2_kib, 1, 1 << 24),
            // All SMs together stay below 4 GiB.
            ("memory.sm_dram_in_flight_kib", memory.sm_dram_in_flight_kib.into(), 1, 4_000),
            ("memory.l2_in_flight_kib", memory.l2_in_flight_kib.into(), 1, 1_000_000),
            ("memory.sm_tlb_mib", memory.sm_tlb_mib.into(), 2, 1 << 24),
            ("pcie.bar1_mib", self.pcie.bar1_mib, 1, MEMORY_MIB),
            ("mps.server_mib", server, 0, total),
            ("mps.client_mib", client, 0, total),
        ]
    }

    fn times(&self) -> Vec<Whole> {
        let (host, defects) = (&self.host, &self.defects);
        let call = |key, value| (key, value, 0, MINUTE_NS);
        vec![
            call("gpu.dispatch_ns", self.gpu.dispatch_ns),
            call("memory.l2_latency_ns", self.memory.l2_latency_ns),
            call("host.clock_ns", host.clock_ns),
            call("host.launch_ns", host.launch_ns),
            call("host.launch_latency_ns", host.launch_latency_ns),
            call("host.sync_ns", host.sync_ns),
            call("host.event_ns", host.event_ns),
            call("host.query_ns", host.query_ns),
            call("host.copy_ns", host.copy_ns),
            call("host.alloc_ns", host.alloc_ns),
            call("host.free_ns", host.free_ns),
            call("host.stream_ns", host.stream_ns),
            call("host.module_ns", host.module_ns),
            call("host.context_ns", host.context_ns),
            call("host.other_ns", host.other_ns),
            call("host.refused_ns", host.refused_ns),
            call("host.refused_free_ns", host.refused_free_ns.unwrap_or(0)),
            ("noise.epoch_ms", self.noise.epoch_ms, 0, HOUR_MS),
            ("noise.warm_up_s", self.noise.warm_up_s.into(), 0, 86_400),
            (
                "circumstances.kernel_run_time_limit_ms",
                self.circumstances.kernel_run_time_limit_ms,
                0,
                HOUR_MS,
            ),
            ("defects.hami_lock_stale_ms", defects.hami_lock_stale_ms, 0, HOUR_MS),
            ("defects.hami_limiter_start_ms", defects.hami_limiter_start_ms, 0, HOUR_MS),
        ]
    }

    fn sharing(&self) -> Vec<Whole> {
        let mut found = Vec::new();
        if let Some(mps) = &self.mps {
            let sms = self.gpu.sm_count.into();
            found.extend([
                ("mps.clients", mps.clients.into(), 1, 1024),
                ("mps.chunk_sms", mps.chunk_sms.into(), 0, sms),
                ("mps.recovery_ms", mps.recovery_ms, 0, HOUR_MS),
                ("mps.connect_us", mps.connect_us, 0, MINUTE_NS / 1000),
                ("mps.protocol", mps.protocol.into(), 2, 3),
            ]);
        }
        if let Some(mig) = &self.mig {
            let slots = mig.slots.into();
            found.extend([
                ("mig.slots", slots, 1, 8),
                ("mig.slices", mig.slices.into(), 1, slots),
                ("mig.instance_ms", mig.instance_ms, 0, HOUR_MS),
            ]);
        }
        found
    }

    fn rates(&self) -> Vec<Real> {
        let (memory, pcie, power) = (&self.memory, &self.pcie, &self.power);
        let (noise, defects) = (&self.noise, &self.defects);
        let spread = |key, sd| (key, sd, 0.0, 0.2);
        let error = |key, share| (key, share, -0.9, 10.0);
        // 1 MB/s to 1 PB/s.
        let bytes = |key, gb_per_s| (key, gb_per_s, 0.001, 1e6);
        vec![
            bytes("memory.dram_gb_per_s", memory.dram_gb_per_s),
            bytes("memory.l2_gb_per_s", memory.l2_gb_per_s),
            bytes("memory.sm_dram_gb_per_s", memory.sm_dram_gb_per_s),
            bytes("memory.sm_l2_gb_per_s", memory.sm_l2_gb_per_s),
            bytes("memory.first_use_gb_per_s", memory.first_use_gb_per_s.unwrap_or(1.0)),
            bytes("pcie.to_device_gb_per_s", pcie.to_device_gb_per_s),
            bytes("pcie.to_host_gb_per_s", pcie.to_host_gb_per_s),
            ("memory.translations_per_us", memory.translations_per_us, 0.001, 1e9),
            ("memory.sm_translations_per_us", memory.sm_translations_per_us, 0.001, 1e9),
            ("pcie.pageable_factor", pcie.pageable_factor, 0.001, 10.0),
            ("pcie.copy_latency_us", pcie.copy_latency_us, 0.0, 1e6),
            ("power.idle_w", power.idle_w, 0.0, 1e5),
            ("power.max_w", power.max_w, 0.0, 1e5),
            ("power.cap_w", power.cap_w, 0.0, 1e5),
            ("power.min_w", power.min_w.unwrap_or(0.0), 0.0, 1e5),
            ("power.pipes_w", power.pipes_w.unwrap_or(0.0), 0.0, 1e5),
            ("host.lock_share", self.host.lock_share, 0.0, 1.0),
            spread("noise.request", noise.request),
            spread("noise.epoch", noise.epoch),
            spread("noise.session", noise.session),
            spread("noise.call", noise.call),
            spread("noise.turn", noise.turn),
            spread("noise.recovery", noise.recovery),
            spread("noise.warm_up", noise.warm_up),
            ("defects.fault_escape", defects.fault_escape, 0.0, 1.0),
            error("defects.mps_percentage_error", defects.mps_percentage_error),
            error("defects.mps_memory_overshoot", defects.mps_memory_overshoot),
            error("defects.hami_memory_overshoot", defects.hami_memory_overshoot),
            error("defects.hami_sm_error", defects.hami_sm_error),
            error("defects.nvml_share_error", defects.nvml_share_error),
        ]
    }

    fn check_profiles(&self, path: &str) -> Result<(), MachineError> {
        let Some(mig) = &self.mig else { return Ok(()) };
        if mig.profile.len() > PROFILES_MAX {
            let found = format!("{} profiles", mig.profile.len());
            return wrong(path, "mig.profile", found, "at most 64");
        }
        let total = self.memory.total_mib;
        for profile in &mig.profile {
            let count = |key, value: Option<u32>| (key, value.unwrap_or(0).into(), 0, 1024);
            let mut numbers = vec![
                ("mig.profile.id", profile.id.into(), 0, 1024),
                ("mig.profile.nvml", profile.nvml.into(), 0, 1024),
                ("mig.profile.max", profile.max.into(), 1, 64),
                ("mig.profile.memory_slots", profile.memory_slots.into(), 1, 8),
                ("mig.profile.sm", profile.sm.unwrap_or(1).into(), 1, 1024),
                ("mig.profile.memory_mib", profile.memory_mib.unwrap_or(0), 0, total),
                count("mig.profile.copy_engines", profile.copy_engines),
                count("mig.profile.decoders", profile.decoders),
                count("mig.profile.jpeg", profile.jpeg),
                count("mig.profile.ofa", profile.ofa),
            ];
            let starts = profile.starts.iter();
            numbers.extend(starts.map(|start| ("mig.profile.starts", (*start).into(), 0, 7)));
            for (key, found, least, most) in numbers {
                let found: u64 = found;
                if !(least..=most).contains(&found) {
                    return wrong(path, key, found, format!("{least} to {most}"));
                }
            }
        }
        Ok(())
    }
}
