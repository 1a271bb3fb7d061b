//! Functions of a module, and their launches.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CString, c_int};

use super::api::{Api, Handle};
use super::error::DriverError;
use super::launch::{Args, Grid};
use super::module::Module;
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
    /// Registers of each thread.
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

/// The variant of the launch call.
#[derive(Debug, Clone, Copy)]
enum LaunchCall {
    /// `cuLaunchKernel`.
    Plain,
    /// `cuLaunchKernel_ptsz`.
    PerThread,
}

impl Function {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module it belongs to.
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

    /// Queues a launch.
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
