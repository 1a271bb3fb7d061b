//! Driver calls that nearly every test needs, and one device per test program.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::session::{ENV, Session};
use gpubench_virtual_gpu_model::machine::Machine;

macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: handles are keys of tables, so that each is valid or refused; pointers are null,
        // or valid for what the call reads and writes.
        #[allow(unsafe_code, unused_unsafe, reason = "the interface under test is a C interface")]
        let code = unsafe { $name($($argument),*) };
        code
    }};
}
pub(crate) use call;

/// A call that must succeed.
macro_rules! call_ok {
    ($($call:tt)*) => {
        $crate::driver_support::ok($crate::driver_support::call!($($call)*))
    };
}
pub(crate) use call_ok as ok;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Folder of the program's device, once created. The library supports one device per process, so
/// the tests of a program run one after the other.
pub type OneDevice = Mutex<Option<tempfile::TempDir>>;

/// Locks the device of the program, creating it on first use.
pub fn lock(
    device: &'static OneDevice,
    make: impl FnOnce() -> (Session, Machine),
) -> MutexGuard<'static, Option<tempfile::TempDir>> {
    let mut held = device.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_none() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (session, machine) = make();
        session.create(dir.path(), &machine).expect("a device");
        // SAFETY: under the lock, before any other thread of this binary reads the environment.
        unsafe { std::env::set_var(ENV, dir.path()) };
        *held = Some(dir);
    }
    held
}

pub fn ok(code: i32) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(format!("code {code}").into()) }
}

/// Opens a context and makes it current.
pub fn context() -> Result<Handle, Error> {
    let mut context: Handle = null_mut();
    ok!(cuInit(0))?;
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0))?;
    Ok(context)
}

pub fn function(text: &str, name: &str) -> Result<Handle, Error> {
    let (mut module, mut function): (Handle, Handle) = (null_mut(), null_mut());
    let (text, name) = (CString::new(text)?, CString::new(name)?);
    ok!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
    ok!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()))?;
    Ok(function)
}

pub fn alloc(bytes: usize) -> Result<u64, Error> {
    let mut pointer = 0;
    ok!(cuMemAlloc_v2(&raw mut pointer, bytes))?;
    Ok(pointer)
}

/// A non-blocking stream.
pub fn stream() -> Result<Handle, Error> {
    let mut stream: Handle = null_mut();
    ok!(cuStreamCreate(&raw mut stream, 1))?;
    Ok(stream)
}

/// Pointers to the arguments of a launch; each fills one parameter of at most 8 bytes.
pub fn params(args: &mut [u64]) -> Vec<*mut c_void> {
    let pointers = args.iter_mut();
    pointers.map(|arg| std::ptr::from_mut(arg).cast()).collect()
}

/// Launches blocks with that many threads and bytes of dynamic shared memory on a stream.
pub fn launch_on(
    function: Handle,
    (grid, block, shared): (u32, u32, u32),
    stream: Handle,
    args: &mut [u64],
) -> i32 {
    let mut params = params(args);
    let (params, extra) = (params.as_mut_ptr(), null_mut());
    // 32-bit parameters read the low half.
    call!(cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, params, extra))
}

/// Launches on the default stream, without dynamic shared memory.
pub fn launch(function: Handle, grid: u32, block: u32, args: &mut [u64]) -> i32 {
    launch_on(function, (grid, block, 0), null_mut(), args)
}
