//! The shape of a launch and its arguments, checked against the kernel before the driver call.

use std::ffi::c_void;

use super::memory::DevicePtr;

/// Maximum number of arguments of a kernel of this crate.
pub const MAX_ARGS: usize = 12;

/// One-dimensional launch shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    pub blocks: u32,
    /// Threads of each block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of each block.
    pub shared_bytes: u32,
}

impl Grid {
    /// A shape without dynamic shared memory.
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks, threads, shared_bytes: 0 }
    }

    /// The same shape with that much dynamic shared memory.
    pub const fn with_shared(self, shared_bytes: u32) -> Self {
        Self { shared_bytes, ..self }
    }

    pub const fn total_threads(&self) -> u64 {
        self.blocks as u64 * self.threads as u64
    }
}

/// Arguments of a launch, in order, by value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Args {
    values: [u64; MAX_ARGS],
    sizes: [u8; MAX_ARGS],
    count: usize,
    overflowed: bool,
}

impl Args {
    /// No arguments.
    pub const fn new() -> Self {
        Self { values: [0; MAX_ARGS], sizes: [0; MAX_ARGS], count: 0, overflowed: false }
    }

    /// Adds a device address.
    pub const fn ptr(self, value: DevicePtr) -> Self {
        self.push(value.0, 8)
    }

    /// Adds a 64-bit number.
    pub const fn u64(self, value: u64) -> Self {
        self.push(value, 8)
    }

    /// Adds a 32-bit number.
    pub const fn u32(self, value: u32) -> Self {
        self.push(value as u64, 4)
    }

    /// Adds a single-precision number.
    pub const fn f32(self, value: f32) -> Self {
        self.push(value.to_bits() as u64, 4)
    }

    /// Adds a double-precision number.
    pub const fn f64(self, value: f64) -> Self {
        self.push(value.to_bits(), 8)
    }

    /// Bytes of each argument, in order.
    pub fn sizes(&self) -> &[u8] {
        &self.sizes[..self.count]
    }

    /// Whether the arguments match a kernel with parameters of these sizes.
    pub fn fit(&self, params: &[u8]) -> bool {
        !self.overflowed && self.sizes() == params
    }

    /// Pointers to the values for the driver. On a little-endian host the low bytes come first, so
    /// a 32-bit argument is read correctly.
    pub(super) fn pointers(&mut self) -> [*mut c_void; MAX_ARGS] {
        self.values.each_mut().map(|value| std::ptr::from_mut(value).cast())
    }

    const fn push(mut self, value: u64, size: u8) -> Self {
        if self.count == MAX_ARGS {
            self.overflowed = true;
            return self;
        }
        self.values[self.count] = value;
        self.sizes[self.count] = size;
        self.count += 1;
        self
    }
}

#[cfg(target_endian = "big")]
compile_error!("kernel arguments are laid out for little-endian hosts");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_types_in_order() {
        let args = Args::new().ptr(DevicePtr(1)).u32(2).f32(3.0).u64(4).f64(5.0);
        assert_eq!(args.sizes(), [8, 4, 4, 8, 8]);
        assert!(args.fit(&[8, 4, 4, 8, 8]));
        assert!(!args.fit(&[8, 4, 4, 8]));
        assert!(!args.fit(&[8, 4, 8, 8, 8]));
    }

    #[test]
    fn one_argument_too_many_never_fits() {
        let full = (0..MAX_ARGS).fold(Args::new(), |args, _| args.u32(7));
        assert!(full.fit(&[4; MAX_ARGS]));
        assert!(!full.u32(7).fit(&[4; MAX_ARGS]));
    }

    #[test]
    fn a_grid_counts_its_threads_beyond_32_bits() {
        assert_eq!(Grid::new(1 << 30, 1024).total_threads(), 1 << 40);
    }
}
