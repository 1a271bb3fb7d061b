//! A program that uses the driver interface and is not part of the harness. Tests run it under
//! preloaded libraries and on planted machines, where it behaves as any program.
//!
//! - `driver_client fill STEP_MIB` allocates until it is refused and prints the allocated bytes;
//!   with the argument `made` it does so in a context that it creates.
//! - `driver_client total` prints the total memory that it sees.
//! - `driver_client where SYMBOL` prints the library of a symbol.
//! - `driver_client hold` keeps a context open until its input ends.
//! - `driver_client busy` prints `busy`, then allocates, computes and frees until it is killed.
//! - `driver_client figures PARTICIPANT WHAT` prints the figures of the module `figures`.
#![expect(unsafe_code, reason = "the driver interface is a C interface")]
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::io::Read;
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;
type Symbol<T> = Result<T, Error>;
type Out<T> = *mut T;

/// Calls a function of the driver with these arguments. A code other than 0 is an error.
macro_rules! call {
    ($name:literal: $($type:ty),*; $($argument:expr),*) => {{
        // SAFETY: the driver's function of that name has this signature; the places are valid.
        let code = unsafe {
            let function: unsafe extern "C" fn($($type),*) -> std::ffi::c_int =
                std::mem::transmute(address($name)?);
            function($($argument),*)
        };
        check($name, code)
    }};
}

mod figures;

/// Looks a function up as most programs do: `dlopen`, then `dlsym`.
fn address(name: &str) -> Symbol<*mut c_void> {
    let name = CString::new(name)?;
    // SAFETY: C strings; the driver's library runs its own initialisers only.
    let found = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return Err("no libcuda.so.1".into());
        }
        libc::dlsym(library, name.as_ptr())
    };
    if found.is_null() {
        return Err(format!("no {}", name.to_string_lossy()).into());
    }
    Ok(found)
}

fn check(what: &str, code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(format!("{what} answers {code}").into()) }
}

/// Starts the driver and retains the primary context, as programs on the runtime do, or makes one.
fn open(primary: bool) -> Result<(), Error> {
    let mut context: *mut c_void = std::ptr::null_mut();
    call!("cuInit": u32; 0)?;
    if !primary {
        return call!("cuCtxCreate_v2": Out<*mut c_void>, u32, c_int; &raw mut context, 0, 0);
    }
    call!("cuDevicePrimaryCtxRetain": Out<*mut c_void>, c_int; &raw mut context, 0)?;
    call!("cuCtxSetCurrent": *mut c_void; context)
}

/// Allocates in steps until the driver is out of memory. Returns the allocated bytes.
fn fill(step: usize, primary: bool) -> Result<u64, Error> {
    open(primary)?;
    let mut allocated = 0;
    loop {
        let mut pointer = 0u64;
        // SAFETY: as above.
        let code = unsafe {
            let alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int =
                std::mem::transmute(address("cuMemAlloc_v2")?);
            alloc(&raw mut pointer, step)
        };
        match code {
            0 => allocated += step as u64,
            2 => return Ok(allocated),
            other => return Err(format!("cuMemAlloc answers {other}").into()),
        }
    }
}

/// Blocks of a kernel of about half a millisecond. The virtual GPU executes a sample of them.
const BLOCKS: u32 = 8_000_000;

/// Allocates, computes and frees until the process is killed.
fn busy() -> Result<(), Error> {
    open(true)?;
    let chain = figures::chain()?;
    println!("busy");
    loop {
        let mut out = 0u64;
        call!("cuMemAlloc_v2": Out<u64>, usize; &raw mut out, 1 << 30)?;
        figures::launch(chain, BLOCKS, 32, &mut [out, 2, 0, 0])?;
        call!("cuCtxSynchronize": ;)?;
        call!("cuMemFree_v2": u64; out)?;
    }
}

/// Keeps a context open until standard input ends.
fn hold() -> Result<(), Error> {
    open(true)?;
    println!("holding");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn total() -> Result<usize, Error> {
    open(true)?;
    let (mut free, mut total) = (0usize, 0usize);
    // SAFETY: as above.
    unsafe {
        let info: unsafe extern "C" fn(*mut usize, *mut usize) -> c_int =
            std::mem::transmute(address("cuMemGetInfo_v2")?);
        check("cuMemGetInfo", info(&raw mut free, &raw mut total))?;
    }
    Ok(total)
}

/// The file of the library that defines a function.
fn library_of(name: &str) -> Result<String, Error> {
    let found = address(name)?;
    // SAFETY: `Dl_info` is plain data that `dladdr` fills, and the name it yields is a C string.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(found, &raw mut info) == 0 || info.dli_fname.is_null() {
            return Err("it is in no library".into());
        }
        Ok(CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    }
}

fn run() -> Result<String, Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["fill", step] => Ok(fill(step.parse::<usize>()? << 20, true)?.to_string()),
        ["fill", step, "made"] => Ok(fill(step.parse::<usize>()? << 20, false)?.to_string()),
        ["total"] => Ok(total()?.to_string()),
        ["where", symbol] => library_of(symbol),
        ["hold"] => hold().map(|()| "let go".to_owned()),
        ["busy"] => busy().map(|()| "never".to_owned()),
        ["figures", id, what @ ..] if !what.is_empty() => figures::find(id, what),
        _ => Err("usage: driver_client fill STEP_MIB | total | where SYMBOL | hold | busy".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
