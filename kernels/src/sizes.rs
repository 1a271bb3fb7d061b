//! Sizes of loads, derived from the properties of the device; no figure is that of one GPU.

use crate::driver::{DeviceProps, DriverError, Grid};

/// A buffer for DRAM loads is this many times the size of L2, so that at most one access in eight
/// of a cyclic sweep can hit in L2.
const DRAM_OVER_L2: u64 = 8;

/// Largest part of the device memory for one buffer, because tenants share it.
const MEMORY_PART: u64 = 16;

/// A TLB load sweeps this part of the device memory.
const TLB_PART: u64 = 8;

/// Buffers are whole pages of the GPU's large size, so that every page walk costs the same.
pub(crate) const PAGE_BYTES: u64 = 2 << 20;

impl DeviceProps {
    /// Refuses to take all the memory of a device that shares the host's.
    pub const fn has_own_memory(&self) -> Result<(), DriverError> {
        if self.integrated { Err(DriverError::HostMemory) } else { Ok(()) }
    }

    /// Bytes of a buffer that streams from DRAM: several times L2, far below a tenant's share.
    pub fn dram_buffer_bytes(&self) -> u64 {
        let wanted = self.l2_bytes.saturating_mul(DRAM_OVER_L2).max(PAGE_BYTES);
        let allowed = (self.total_bytes / MEMORY_PART).max(PAGE_BYTES);
        wanted.min(allowed) / PAGE_BYTES * PAGE_BYTES
    }

    /// Bytes of a buffer that stays in `share` of L2, in whole lines of 128 bytes.
    pub fn l2_buffer_bytes(&self, share: f64) -> u64 {
        let bytes = self.l2_bytes as f64 * share.clamp(0.0, 1.0);
        (bytes as u64 / 128).max(1) * 128
    }

    /// Bytes of a buffer with more pages than a TLB covers: an eighth of the memory, whole pages.
    pub fn tlb_buffer_bytes(&self) -> u64 {
        (self.total_bytes / TLB_PART / PAGE_BYTES).max(1) * PAGE_BYTES
    }

    /// Bytes of L1 or shared memory for each of `blocks` on one SM, in whole lines of 128 bytes.
    /// Together they use half of it: L1 and shared memory are one store since Volta.
    pub fn l1_part_bytes(&self, blocks: u32) -> u32 {
        let part = self.shared_per_sm_bytes / 2 / blocks.max(1);
        (part.min(self.shared_per_block_bytes) / 128).max(1) * 128
    }

    /// A grid that fills every SM once with blocks of `threads`.
    pub fn full_grid(&self, threads: u32) -> Grid {
        self.share_grid(threads, 1.0)
    }

    /// A grid that fills `share` of the SMs, rounded down, at least one SM.
    pub fn share_grid(&self, threads: u32, share: f64) -> Grid {
        let sms = (f64::from(self.sm_count) * share.clamp(0.0, 1.0)) as u32;
        Grid::new(sms.max(1) * self.blocks_on_one_sm(threads), threads)
    }

    fn blocks_on_one_sm(&self, threads: u32) -> u32 {
        (self.threads_per_sm / threads.max(1)).min(self.blocks_per_sm).max(1)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small and a large device, from public data sheets (T4 and H100 SXM).
    pub(crate) fn devices() -> [DeviceProps; 2] {
        let small = DeviceProps {
            sm_count: 40,
            l2_bytes: 4 << 20,
            total_bytes: 15 << 30,
            integrated: false,
            threads_per_sm: 1024,
            blocks_per_sm: 16,
            threads_per_block: 1024,
            warp_threads: 32,
            shared_per_sm_bytes: 64 << 10,
            shared_per_block_bytes: 64 << 10,
            compute_capability: (7, 5),
            copy_engines: 3,
            sm_clock_khz: 1_590_000,
            memory_clock_khz: 5_001_000,
            memory_bus_bits: 256,
        };
        let large = DeviceProps {
            sm_count: 132,
            l2_bytes: 50 << 20,
            total_bytes: 80 << 30,
            threads_per_sm: 2048,
            blocks_per_sm: 32,
            shared_per_sm_bytes: 228 << 10,
            shared_per_block_bytes: 227 << 10,
            compute_capability: (9, 0),
            ..small
        };
        [small, large]
    }

    #[test]
    fn dram_buffers_exceed_l2_and_leave_room_for_tenants() {
        for device in devices() {
            let bytes = device.dram_buffer_bytes();
            assert!(bytes >= 8 * device.l2_bytes && bytes <= device.total_bytes / 16);
            assert_eq!(bytes % PAGE_BYTES, 0);
        }
    }

    #[test]
    fn a_mig_slice_with_little_memory_gets_a_buffer() {
        let slice = DeviceProps { total_bytes: 64 << 20, ..devices()[1] };
        assert_eq!(slice.dram_buffer_bytes(), 4 << 20);
        assert_eq!(DeviceProps { l2_bytes: 0, ..slice }.dram_buffer_bytes(), PAGE_BYTES);
    }

    #[test]
    fn grids_fill_the_requested_share() {
        let [small, large] = devices();
        assert_eq!(small.full_grid(256), Grid::new(160, 256));
        assert_eq!(large.full_grid(256), Grid::new(1056, 256));
        assert_eq!(large.full_grid(32), Grid::new(132 * 32, 32));
        assert_eq!(small.share_grid(256, 3.0 / 7.0), Grid::new(17 * 4, 256));
        assert_eq!(small.share_grid(256, 0.0), Grid::new(4, 256));
    }

    #[test]
    fn page_sweeps_and_l1_parts_stay_inside_the_device() {
        for device in devices() {
            assert_eq!(device.tlb_buffer_bytes(), device.total_bytes / 8 / PAGE_BYTES * PAGE_BYTES);
            for blocks in [1, 3, 8] {
                let part = device.l1_part_bytes(blocks);
                assert_eq!(part % 128, 0);
                assert!(part * blocks <= device.shared_per_sm_bytes / 2);
            }
        }
        let nothing = DeviceProps { total_bytes: 0, shared_per_sm_bytes: 0, ..devices()[0] };
        assert_eq!((nothing.tlb_buffer_bytes(), nothing.l1_part_bytes(0)), (PAGE_BYTES, 128));
    }

    #[test]
    fn l2_buffers_follow_the_share_in_whole_lines() {
        let [small, _] = devices();
        assert_eq!(small.l2_buffer_bytes(0.5), 2 << 20);
        assert_eq!(small.l2_buffer_bytes(0.0), 128);
        assert_eq!(small.l2_buffer_bytes(0.3) % 128, 0);
    }
}
