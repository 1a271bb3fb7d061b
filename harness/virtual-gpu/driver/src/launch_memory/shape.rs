//! The shape of a launch.

/// Shape of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// All blocks have to be on the device at the same time.
    pub cooperative: bool,
}
