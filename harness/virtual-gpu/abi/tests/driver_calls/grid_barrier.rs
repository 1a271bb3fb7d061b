//! Blocks of an ordinary launch that wait for each other: they run at the same time, as far as they
//! fit on the device.

use std::ptr::null_mut;

use super::cooperative::{RELAY, THREADS, in_order, relay};
use super::*;

/// Blocks of the relay that fit on a `turing`.
const ROOM: u32 = 640;

#[test]
fn blocks_of_an_ordinary_launch_meet_if_all_of_them_fit_and_end_otherwise() -> Result<(), Error> {
    with_context(|| {
        let kernel = function(RELAY, "relay")?;
        let apart = |blocks| {
            relay(blocks, blocks, |args| launch(kernel, blocks, THREADS, null_mut(), args))
        };
        for blocks in [2, 41, ROOM] {
            assert_eq!(apart(blocks)?, ([0; 2], in_order(blocks)), "{blocks} blocks");
        }
        assert_eq!(apart(ROOM + 1)?.0, [0, 702]);
        Ok(())
    })
}
