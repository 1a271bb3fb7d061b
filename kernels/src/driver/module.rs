//! Modules from PTX text, their functions, and launches.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Arc;

use super::api::{Api, Handle};
use super::codes;
use super::context::Context;
use super::error::DriverError;
use super::launch::{Args, Grid};
use super::stream::Stream;
use crate::ptx_text;

/// Bytes for each log of the JIT compiler.
const LOG_BYTES: usize = 8 * 1024;

/// Options of `cuModuleLoadDataEx` (`CUjit_option` of cuda.h).
const INFO_LOG: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

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

/// Bytes of dynamic shared memory that a launch may ask for (settable).
const MAX_DYNAMIC_SHARED_BYTES: c_int = 8;

#[derive(Debug)]
struct Inner {
    context: Context,
    handle: Handle,
    name: String,
    ptx: String,
    jit_log: String,
}

// SAFETY: module and function handles may be used from any thread (CUDA driver API, "Thread
// safety"); the rest is plain data.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A module loaded into a context; clones share it.
#[derive(Debug, Clone)]
pub struct Module(Arc<Inner>);

impl Module {
    /// Compiles and loads PTX text; `name` appears in errors only.
    pub fn load(context: &Context, name: &str, ptx: &str) -> Result<Self, DriverError> {
        let text = CString::new(ptx).map_err(|_| DriverError::NulByte { what: "the PTX" })?;
        let mut info = vec![0_u8; LOG_BYTES];
        let mut errors = vec![0_u8; LOG_BYTES];
        let mut options = [INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES];
        // One byte is kept back, so that a log is always followed by a NUL.
        let size = std::ptr::without_provenance_mut::<c_void>(LOG_BYTES - 1);
        let mut values = [
            info.as_mut_ptr().cast(),
            size,
            errors.as_mut_ptr().cast(),
            size,
        ];
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: four options with four values of the kinds that cuda.h names; the text ends in
        // NUL; the logs live until after the call.
        let outcome = unsafe {
            context.api().module_load_data_ex(
                &raw mut handle,
                text.as_ptr().cast(),
                4,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match outcome {
            Ok(()) => Ok(Self(Arc::new(Inner {
                context: context.clone(),
                handle,
                name: name.to_owned(),
                ptx: ptx.to_owned(),
                jit_log: log_text(&info),
            }))),
            Err(DriverError::Call { code, .. }) => Err(DriverError::Module {
                module: name.to_owned(),
                code,
                name: codes::name(code),
                log: Some(log_text(&errors))
                    .filter(|l| !l.is_empty())
                    .unwrap_or("no log".into()),
            }),
            Err(other) => Err(other),
        }
    }

    /// What the JIT compiler remarked, on one line; often nothing.
    pub fn jit_log(&self) -> &str {
        &self.0.jit_log
    }

    /// One of its entries.
    pub fn function(&self, entry: &str) -> Result<Function, DriverError> {
        let inner = &self.0;
        let no_entry = || DriverError::NoEntry {
            module: inner.name.clone(),
            entry: entry.to_owned(),
        };
        let params = ptx_text::param_bytes(&inner.ptx, entry).ok_or_else(no_entry)?;
        let name = CString::new(entry).map_err(|_| DriverError::NulByte { what: "the entry" })?;
        let mut handle: Handle = std::ptr::null_mut();
        let api = inner.context.api();
        // SAFETY: writes one handle; the module is alive, the name ends in NUL.
        unsafe { api.module_get_function(&raw mut handle, inner.handle, name.as_ptr()) }?;
        Ok(Function {
            module: self.clone(),
            handle,
            name: entry.to_owned(),
            params,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: loaded by this object, released once; functions hold the module alive.
        self.context
            .release(|api| unsafe { api.module_unload(self.handle) });
    }
}

/// The text of a log up to its NUL, lines joined.
fn log_text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes)
        .unwrap_or_default()
        .to_string_lossy();
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// An entry of a module, ready to be launched.
#[derive(Debug)]
pub struct Function {
    module: Module,
    handle: Handle,
    name: String,
    params: Vec<u8>,
}

// SAFETY: see `Inner`.
unsafe impl Send for Function {}
// SAFETY: see `Inner`.
unsafe impl Sync for Function {}

/// By which of its two names a launch is called.
#[derive(Debug, Clone, Copy)]
enum Name {
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

    /// One attribute.
    pub fn attribute(&self, attribute: FuncAttribute) -> Result<i32, DriverError> {
        let mut value = 0;
        let api = self.module.0.context.api();
        // SAFETY: writes one int; the handle is alive.
        unsafe { api.func_get_attribute(&raw mut value, attribute as c_int, self.handle) }?;
        Ok(value)
    }

    /// Lets launches ask for that much dynamic shared memory (needed above 48 KiB).
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), DriverError> {
        let value = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let api = self.module.0.context.api();
        // SAFETY: plain numbers; the handle is alive.
        unsafe { api.func_set_attribute(self.handle, MAX_DYNAMIC_SHARED_BYTES, value) }
    }

    /// How many blocks of that shape one SM can hold.
    pub fn blocks_per_sm(&self, threads: u32, shared_bytes: u32) -> Result<u32, DriverError> {
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let api = self.module.0.context.api();
        // SAFETY: writes one int; the handle is alive.
        unsafe { api.occupancy(&raw mut blocks, self.handle, threads, shared_bytes as usize) }?;
        Ok(blocks.unsigned_abs())
    }

    /// Queues a launch.
    pub fn launch(&self, grid: Grid, stream: &Stream, args: &Args) -> Result<(), DriverError> {
        self.queue(Name::Plain, grid, stream, args)
    }

    /// Queues a launch by the name that programs with a default stream for each thread call.
    pub fn launch_per_thread(
        &self,
        grid: Grid,
        stream: &Stream,
        args: &Args,
    ) -> Result<(), DriverError> {
        self.queue(Name::PerThread, grid, stream, args)
    }

    fn queue(
        &self,
        name: Name,
        grid: Grid,
        stream: &Stream,
        args: &Args,
    ) -> Result<(), DriverError> {
        let mut args = self.fitting(args)?;
        let mut pointers = args.pointers();
        let api = self.module.0.context.api();
        let launch = match name {
            Name::Plain => Api::launch_kernel,
            Name::PerThread => Api::launch_kernel_ptsz,
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

    /// Queues a launch whose blocks are all resident at once, or none.
    pub fn launch_cooperative(
        &self,
        grid: Grid,
        stream: &Stream,
        args: &Args,
    ) -> Result<(), DriverError> {
        let mut args = self.fitting(args)?;
        let mut pointers = args.pointers();
        let api = self.module.0.context.api();
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

    /// The arguments, if they are what the kernel takes.
    fn fitting(&self, args: &Args) -> Result<Args, DriverError> {
        if args.fit(&self.params) {
            return Ok(*args);
        }
        Err(DriverError::Arguments {
            kernel: self.name.clone(),
            expected: self.params.clone(),
            given: args.sizes().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_becomes_one_line() {
        assert_eq!(
            log_text(b"ptxas error\n  line 2\n\n\0junk"),
            "ptxas error; line 2"
        );
        assert_eq!(log_text(b"\0"), "");
        assert_eq!(log_text(b"no end"), "");
    }
}
