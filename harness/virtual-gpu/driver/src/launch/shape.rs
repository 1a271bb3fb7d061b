//! The shape of a launch: plain data.

/// Shape of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// All blocks must be resident at the same time.
    pub cooperative: bool,
}
