//! What the programs share that call the C interface with random arguments. Each of them opens the
//! device of its own process, so it is a program of its own.
#![allow(dead_code, reason = "each test program uses its own part")]
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::device;
use gpubench_virtual_gpu_driver::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu_model::machine::Machine;

const COPY: &str = Kernel::StreamCopy.info().ptx;

/// A small generator of random numbers (xorshift64*, Vigna 2016).
pub struct Dice(u64);

impl Dice {
    pub const fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// The process's device, on whose clock the test is.
pub fn joined(machine: &str) -> (tempfile::TempDir, Arc<Device>) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let machine = Machine::load(machine).expect("built in");
    Session::new(TimeMode::Virtual, 1).create(dir.path(), &machine).expect("a device");
    // SAFETY: the only test of its program; no other thread reads the environment.
    unsafe { std::env::set_var(ENV, dir.path()) };
    let device = device().expect("a device");
    device.expect(0).expect("a free number");
    device.join(0).expect("announced");
    // SAFETY: no pointers.
    assert_eq!(unsafe { cuInit(0) }, 0);
    (dir, device)
}

pub fn context() -> Handle {
    let mut context = null_mut();
    // SAFETY: a valid pointer.
    assert_eq!(unsafe { cuCtxCreate_v2(&raw mut context, 0, 0) }, 0);
    context
}

/// A module and its kernel that copies.
pub fn copy_kernel() -> (Handle, Handle) {
    let (mut module, mut copy): (Handle, Handle) = (null_mut(), null_mut());
    let text = CString::new(COPY).expect("text without null bytes");
    // SAFETY: valid pointers and strings.
    unsafe {
        assert_eq!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()), 0);
        let name = c"stream_copy".as_ptr();
        assert_eq!(cuModuleGetFunction(&raw mut copy, module, name), 0);
    }
    (module, copy)
}
