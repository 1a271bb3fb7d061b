//! Work for a stream: memory writes, L2 reads, copies or arithmetic.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;

use crate::driver_support::ok;

use super::Error;
use super::client::{CHAIN, alloc, kernel, launch};

const L2: (&str, &str) = (Kernel::L2Stream.info().ptx, "l2_stream");

/// Work for a stream, about a millisecond.
pub struct Work {
    pub stream: Handle,
    piece: Piece,
}

enum Piece {
    /// Writes this much device memory: DRAM.
    Pour { to: u64, words: usize },
    /// Reads a buffer in L2 repeatedly.
    L2 { function: Handle, args: Vec<u64> },
    /// Copies pinned memory to the device: the link.
    Push { to: u64, from: usize, bytes: usize },
    /// Arithmetic on this many blocks: SMs and power.
    Chain { function: Handle, grid: u32, args: Vec<u64> },
}

impl Work {
    pub fn new(text: &str, stream: Handle) -> Result<Self, Error> {
        let piece = Piece::new(text)?;
        Ok(Self { stream, piece })
    }

    pub fn submit(&mut self) -> Result<(), Error> {
        self.piece.submit(self.stream)
    }
}

impl Piece {
    fn new(text: &str) -> Result<Self, Error> {
        let memory = |mib| alloc(mib).map_err(|code| format!("CUresult {code}"));
        let (name, size) = text.split_once(':').ok_or("no size")?;
        let size: u64 = size.parse()?;
        Ok(match name {
            "pour" => Self::Pour { to: memory(size)?, words: (size << 18) as usize },
            "l2" => {
                let (source, hits) = (memory(16)?, memory(1)?);
                let args = vec![source, 1 << 20, size, 1, hits];
                Self::L2 { function: kernel(L2)?, args }
            }
            "push" => {
                let (to, bytes) = (memory(size)?, (size << 20) as usize);
                let mut from: *mut c_void = null_mut();
                ok!(cuMemHostAlloc(&raw mut from, bytes, 0))?;
                let from = from as usize;
                Self::Push { to, from, bytes }
            }
            "chain" => {
                let (half, one) = (0.5_f32.to_bits().into(), 1_f32.to_bits().into());
                let args = vec![memory(64)?, 25, half, one];
                Self::Chain { function: kernel(CHAIN)?, grid: size as u32, args }
            }
            other => return Err(format!("unknown work {other:?}").into()),
        })
    }

    fn submit(&mut self, stream: Handle) -> Result<(), Error> {
        // SAFETY: memory of these sizes, allocated above.
        ok(unsafe {
            match self {
                Self::Pour { to, words } => cuMemsetD32Async(*to, 1, *words, stream),
                Self::L2 { function, args } => launch(*function, 1056, 256, stream, args),
                Self::Push { to, from, bytes } => {
                    cuMemcpyHtoDAsync_v2(*to, *from as *const c_void, *bytes, stream)
                }
                Self::Chain { function, grid, args } => launch(*function, *grid, 256, stream, args),
            }
        })
    }
}
