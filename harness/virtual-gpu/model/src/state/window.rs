//! The present window of utilisation that NVML reports.

/// The window over which utilisation is averaged.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Window {
    /// Start of the window that is filling.
    pub start_ns: u64,
    /// Engine busy time at its start.
    pub busy_at_start_ns: u64,
    /// Percent of the last full window during which a kernel ran.
    pub last_percent: u32,
    /// DRAM use at its start.
    pub dram_at_start: u128,
    /// Percent of DRAM bandwidth used over the last full window.
    pub last_dram_percent: u32,
}
