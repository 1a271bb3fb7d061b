//! Fuzzes the C interface with random, freed, invalid and null arguments. Every call must return a
//! documented code; none may crash, hang or panic.
//!
//! Pointers that the driver reads or writes are null or valid, as the contract requires.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

mod copying;
#[path = "../fuzz_support/mod.rs"]
mod fuzz_support;
mod graphs;
mod memory;
mod objects;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::code::describe;
use gpubench_virtual_gpu_driver::handles::Handle;

use fuzz_support::{Dice, context, copy_kernel, joined};

/// Kinds of handles, as in the handle tables of a process.
const STREAM: u64 = 4;
const EVENT: u64 = 5;
const PHYSICAL: u64 = 8;
const POOL: u64 = 9;
const ARRAY: u64 = 10;
const GRAPH: u64 = 11;
const NODE: u64 = 12;
const EXEC: u64 = 13;

/// Real time of one run.
const LIMIT: Duration = Duration::from_secs(8);

/// Bytes of each host buffer; no valid call moves more.
const BUFFER: usize = 1 << 16;

/// Everything that calls returned, live or freed.
struct Fuzz {
    dice: Dice,
    handles: Vec<u64>,
    pointers: Vec<u64>,
    buffer: Vec<u8>,
    registered: Vec<u8>,
    calls: u64,
    successes: u64,
}

impl Fuzz {
    fn of_kind(&mut self, kind: u64) -> Handle {
        let own: Vec<u64> = self.handles.iter().copied().filter(|h| h >> 44 == kind).collect();
        match self.dice.below(5) {
            0 => self.handle(),
            _ if own.is_empty() => self.handle(),
            _ => self.dice.of(&own[own.len().saturating_sub(6)..]) as Handle,
        }
    }

    fn handle(&mut self) -> Handle {
        let wild = [0, 1, 2, 3, 16, 0x1230, u64::MAX, 1 << 45];
        let value = match self.dice.below(8) {
            0 => self.dice.of(&wild),
            1 => self.handles[self.dice.below(self.handles.len())] ^ (self.dice.roll() & 0xFFF0),
            _ => self.handles[self.dice.below(self.handles.len())],
        };
        value as Handle
    }

    fn stream(&mut self) -> Handle {
        if self.dice.below(3) == 0 { null_mut() } else { self.of_kind(STREAM) }
    }

    /// A device address: known, near a known one, or random, but never a host address.
    fn pointer(&mut self) -> u64 {
        let recent = self.pointers.len().saturating_sub(12);
        let known = self.dice.of(&self.pointers[recent..]);
        let wild = [0, 1, 64, 0x6000_0000_0000, 0x7000_0000_0000, 0x7000_0000_1001, 1 << 62];
        match self.dice.below(6) {
            0 => self.dice.of(&wild),
            1 => known + self.dice.below(64) as u64,
            _ => known,
        }
    }

    fn host(&mut self) -> *mut c_void {
        if self.dice.below(12) == 0 { null_mut() } else { self.buffer.as_mut_ptr().cast() }
    }

    /// A size that fits the host buffers.
    fn small(&mut self) -> usize {
        let sizes = [0, 1, 2, 3, 4, 8, 15, 16, 100, 512, 4095, 4096, BUFFER / 4, BUFFER];
        self.dice.of(&sizes)
    }

    fn size(&mut self) -> usize {
        let huge = [1 << 20, 2 << 20, 4 << 20, 1 << 34, 1 << 45, usize::MAX, usize::MAX / 2 + 1];
        if self.dice.below(3) == 0 { self.dice.of(&huge) } else { self.small() }
    }

    fn number(&mut self) -> i32 {
        let numbers = [0, 0, 1, 1, 2, 3, 4, 5, 6, 8, 9, 16, 100, -1, -2, i32::MIN, i32::MAX];
        self.dice.of(&numbers)
    }

    fn flags(&mut self) -> u32 {
        self.dice.of(&[0, 0, 0, 1, 1, 2, 3, 4, 7, 8, 1 << 30, u32::MAX])
    }

    fn side(&mut self) -> u32 {
        self.dice.of(&[0, 1, 1, 1, 2, 3, 32, 64, 1024, 1025, 65_535, u32::MAX])
    }

    fn check(&mut self, name: &str, code: i32) {
        self.calls += 1;
        self.successes += u64::from(code == 0);
        assert!(describe(code).is_some(), "{name} returned {code}, which is undocumented");
        assert_ne!(code, 999, "{name}: an internal error (its reason was printed)");
    }

    fn keep(&mut self, handle: Handle) {
        if !handle.is_null() {
            self.handles.push(handle as u64);
        }
    }

    fn keep_pointer(&mut self, pointer: u64) {
        if pointer != 0 {
            self.pointers.push(pointer);
        }
    }
}

/// One call in an unsafe block; `$fuzz` checks its code.
macro_rules! call {
    ($fuzz:ident, $name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: pointers are to locals or buffers, structures are complete; the rest is under
        // test.
        let code = unsafe { $name($($arg),*) };
        $fuzz.check(stringify!($name), code);
        code
    }};
}
pub(crate) use call;

#[test]
fn random_calls_return_documented_codes() {
    let (_dir, device) = joined("turing");
    let started = Instant::now();
    let mut fuzz = Fuzz {
        dice: Dice::new(),
        handles: vec![0],
        pointers: vec![0],
        buffer: vec![0; BUFFER],
        registered: vec![0; BUFFER],
        calls: 0,
        successes: 0,
    };
    let mut contexts = 0;
    while started.elapsed() < LIMIT {
        let (context, (_, copy)) = (context(), copy_kernel());
        contexts += 1;
        fuzz.keep(copy);
        for _ in 0..400 {
            match fuzz.dice.below(8) {
                0 => memory::memory(&mut fuzz),
                1 => memory::mapping(&mut fuzz),
                2 => copying::copying(&mut fuzz),
                3 => objects::objects(&mut fuzz),
                4 => objects::memory_and_functions(&mut fuzz),
                5 => objects::launching(&mut fuzz, copy),
                6 => graphs::nodes(&mut fuzz),
                _ => graphs::graphs(&mut fuzz),
            }
        }
        call!(fuzz, cuMemHostUnregister(fuzz.registered.as_mut_ptr().cast()));
        call!(fuzz, cuCtxDestroy_v2(context));
        // Older objects add no coverage.
        let keep = |list: &mut Vec<u64>| drop(list.drain(..list.len().saturating_sub(40)));
        keep(&mut fuzz.handles);
        keep(&mut fuzz.pointers);
    }
    let left = device.transact(|state, _| {
        let allocations = state.allocations.live().iter().filter(|a| a.live).count();
        (allocations, state.streams.live().iter().filter(|s| s.live).count())
    });
    assert_eq!(left.expect("the state"), (0, 0), "allocations and streams left behind");
    device.leave().expect("the clock");
    assert!(contexts > 3, "only {contexts} contexts");
    // A minimum share of calls must succeed, or the test covers error paths only.
    let share = fuzz.successes as f64 / fuzz.calls as f64;
    assert!(share > 0.1, "only {} of {} calls succeeded", fuzz.successes, fuzz.calls);
}
