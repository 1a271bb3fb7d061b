//! Functions of a module, and their launches.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CString, c_int, c_void};

use super::api::{Api, Handle};
use super::device::Module;
use super::error::DriverError;
use super::memory::DevicePtr;
use super::stream::Stream;
use crate::ptx_text;

/// Attributes of a function (`CUfunction_attribute` of cuda.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum FuncAttribute {
    /// Threads of the largest block that the function can be launched with.
    MaxThreadsPerBlock = 0,
    /// Bytes of static shared memory.
    SharedBytes = 1,
    /// Bytes of local memory of each thread (spills and stack).
    LocalBytes = 3,
    Registers = 4,
    /// PTX version times ten.
    PtxVersion = 5,
    /// Architecture of the machine code times ten.
    BinaryVersion = 6,
}

impl Module {
    pub fn function(&self, entry: &str) -> Result<Function, DriverError> {
        let inner = &self.0;
        let no_entry =
            || DriverError::NoEntry { module: inner.name.clone(), entry: entry.to_owned() };
        let params = ptx_text::param_bytes(&inner.ptx, entry).ok_or_else(no_entry)?;
        let name = CString::new(entry).map_err(|_| DriverError::NulByte { what: "the entry" })?;
        let mut handle: Handle = std::ptr::null_mut();
        let api = self.api();
        // SAFETY: writes one handle; the module is alive, the name ends in NUL.
        unsafe { api.module_get_function(&raw mut handle, inner.handle, name.as_ptr()) }?;
        Ok(Function { module: self.clone(), handle, name: entry.to_owned(), params })
    }
}

/// An entry of a module, ready to be launched.
#[derive(Debug)]
pub struct Function {
    module: Module,
    handle: Handle,
    name: String,
    params: Vec<u8>,
}

// SAFETY: any thread may use a function handle (CUDA driver API, "Thread safety").
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

#[derive(Debug, Clone, Copy)]
enum LaunchCall {
    /// `cuLaunchKernel`.
    Plain,
    /// `cuLaunchKernel_ptsz`.
    PerThread,
}

impl Function {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn module(&self) -> &Module {
        &self.module
    }

    pub fn attribute(&self, attribute: FuncAttribute) -> Result<i32, DriverError> {
        let mut value = 0;
        let api = self.module.api();
        // SAFETY: writes one int; the handle is alive.
        unsafe { api.func_get_attribute(&raw mut value, attribute as c_int, self.handle) }?;
        Ok(value)
    }

    /// How many blocks of that shape one SM can hold.
    pub fn blocks_per_sm(&self, threads: u32, shared_bytes: u32) -> Result<u32, DriverError> {
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let api = self.module.api();
        // SAFETY: writes one int; the handle is alive.
        unsafe { api.occupancy(&raw mut blocks, self.handle, threads, shared_bytes as usize) }?;
        Ok(blocks.unsigned_abs())
    }

    pub fn launch(&self, grid: Grid, stream: &Stream, args: &Args) -> Result<(), DriverError> {
        self.queue(LaunchCall::Plain, grid, stream, args)
    }

    /// Queues a launch by the variant for programs with a default stream per thread.
    pub fn launch_per_thread(
        &self,
        grid: Grid,
        stream: &Stream,
        args: &Args,
    ) -> Result<(), DriverError> {
        self.queue(LaunchCall::PerThread, grid, stream, args)
    }

    fn queue(
        &self,
        call: LaunchCall,
        grid: Grid,
        stream: &Stream,
        args: &Args,
    ) -> Result<(), DriverError> {
        let mut args = self.fitting(args)?;
        let mut pointers = args.pointers();
        let api = self.module.api();
        let launch = match call {
            LaunchCall::Plain => Api::launch_kernel,
            LaunchCall::PerThread => Api::launch_kernel_ptsz,
        };
        // SAFETY: as many pointers as the kernel has parameters, each to a value of the parameter's
        // size, copied by the driver before the call returns; handles are alive.
        unsafe {
            launch(
                api,
                self.handle,
                grid.blocks,
                1,
                1,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                stream.handle(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }

    /// Queues a cooperative launch: all of its blocks are resident at once, or the driver refuses
    /// it.
    pub fn launch_cooperative(
        &self,
        grid: Grid,
        stream: &Stream,
        args: &Args,
    ) -> Result<(), DriverError> {
        let mut args = self.fitting(args)?;
        let mut pointers = args.pointers();
        let api = self.module.api();
        // SAFETY: as in `launch`.
        unsafe {
            api.launch_cooperative(
                self.handle,
                grid.blocks,
                1,
                1,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                stream.handle(),
                pointers.as_mut_ptr(),
            )
        }
    }

    /// The arguments, if they match the kernel's parameters.
    fn fitting(&self, args: &Args) -> Result<Args, DriverError> {
        if args.fit(&self.params) {
            return Ok(*args);
        }
        Err(DriverError::Arguments {
            kernel: self.name.clone(),
            expected: self.params.clone(),
            passed: args.sizes().to_vec(),
        })
    }
}

// The shape of a launch and its arguments, checked against the kernel before the driver call.

/// Maximum number of arguments of a kernel of this crate.
pub const MAX_ARGS: usize = 12;

/// One-dimensional launch shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    pub blocks: u32,
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
