//! Atomics on one word are serialised.

use std::ptr::null_mut;

use gpubench_virtual_gpu_model::machine::Machine;

use super::*;

const ATOMICS: &str = Kernel::AtomicAdd.info().ptx;
const BLOCKS: u32 = 40;
const THREADS: u32 = 256;
const ADDITIONS: u64 = 100;

/// Device time of atomics on as many words as the mask leaves, in nanoseconds.
fn adding(function: Handle, words: u64, mask: u64) -> Result<f64, Error> {
    let stream = stream()?;
    let (mut start, mut end): (Handle, Handle) = (null_mut(), null_mut());
    let mut milliseconds = 0.0_f32;
    ok!(cuEventCreate(&raw mut start, 0))?;
    ok!(cuEventCreate(&raw mut end, 0))?;
    ok!(cuEventRecord(start, stream))?;
    let mut args = [words, mask, ADDITIONS];
    ok(launch(function, BLOCKS, THREADS, stream, &mut args))?;
    ok!(cuEventRecord(end, stream))?;
    ok!(cuEventSynchronize(end))?;
    ok!(cuEventElapsedTime(&raw mut milliseconds, start, end))?;
    Ok(f64::from(milliseconds) * 1e6)
}

#[test]
fn atomics_on_one_word_are_serialised_and_those_on_many_are_not() -> Result<(), Error> {
    with_context(|| {
        let function = function(ATOMICS, "atomic_add")?;
        let at = alloc(4 << 16)?;
        ok!(cuMemsetD8_v2(at, 0, 4 << 16))?;
        let all = f64::from(BLOCKS * THREADS) * ADDITIONS as f64;
        let one_word_ns = adding(function, at, 0)?;
        let many_words_ns = adding(function, at, 0xFFFF)?;
        let clock_ns = 1e3 / f64::from(Machine::load("turing")?.gpu.sm_clock_mhz);
        let late = one_word_ns / (all * clock_ns);
        assert!((0.999..1.02).contains(&late), "{one_word_ns} ns, {late} of a clock each");
        assert!(many_words_ns < one_word_ns / 5.0, "{many_words_ns} {one_word_ns}");
        Ok(())
    })
}
