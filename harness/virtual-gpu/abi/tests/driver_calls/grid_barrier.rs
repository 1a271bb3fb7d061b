//! Blocks of an ordinary launch that wait for each other: they run at the same time, as far as they
//! fit on the device.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use super::cooperative::{RELAY, ROUNDS, THREADS};
use super::*;

/// Blocks of the relay that fit on a `turing`.
const ROOM: u32 = 640;

/// A relay over that many blocks by an ordinary launch: the code of the wait, and the cells of the
/// last round.
fn relay(kernel: Handle, blocks: u32) -> Result<(i32, Vec<u32>), Error> {
    let count = blocks as usize;
    let cells = alloc(4 * count * (ROUNDS as usize + 1))?;
    let arrived = alloc(4)?;
    let start: Vec<u32> = (0..blocks).map(|block| 1000 * block).collect();
    let mut args = [cells, arrived, ROUNDS.into(), blocks.into()];
    // SAFETY: memory of that size.
    unsafe {
        ok(cuMemsetD32_v2(cells, 0, count * (ROUNDS as usize + 1)))?;
        ok(cuMemsetD32_v2(arrived, 0, 1))?;
        ok(cuMemcpyHtoD_v2(cells, start.as_ptr().cast(), 4 * count))?;
        ok(launch(kernel, blocks, THREADS, null_mut(), &mut args))?;
        let code = cuCtxSynchronize();
        if code != 0 {
            return Ok((code, Vec::new()));
        }
        let last = words(cells + 4 * u64::from(blocks * ROUNDS), count)?;
        ok(cuMemFree_v2(cells))?;
        ok(cuMemFree_v2(arrived))?;
        Ok((code, last))
    }
}

#[test]
fn blocks_of_an_ordinary_launch_meet_if_all_of_them_fit() -> Result<(), Error> {
    with_context(|| {
        let kernel = function(RELAY, "relay")?;
        for blocks in [2, 41, ROOM] {
            let from = |block| 1000 * ((block + ROUNDS) % blocks) + ROUNDS;
            let right: Vec<u32> = (0..blocks).map(from).collect();
            assert_eq!(relay(kernel, blocks)?, (0, right), "{blocks} blocks");
        }
        Ok(())
    })
}

#[test]
fn a_barrier_of_more_blocks_than_fit_ends() -> Result<(), Error> {
    with_context(|| {
        let kernel = function(RELAY, "relay")?;
        assert_eq!(relay(kernel, ROOM + 1)?.0, 702);
        Ok(())
    })
}
