//! The share of a device that a limiter leaves its client: how many kernels get through in each of
//! its periods, and how long such a kernel takes somebody without a limit in between.

use std::ffi::c_void;

use crate::Error;
use crate::figures::{BEGIN_NS, chain, launch, memory, now_ns, open, sleep_until, sync};

/// Time between two openings of the limiter, which begins with the first launch.
const PERIOD_NS: u64 = 120_000_000;
/// The other one begins so long after a period of the limited one's, and measures for so long.
const AFTER_NS: u64 = 5_000_000;
const ALONE_NS: u64 = 40_000_000;

/// A small kernel, many of which go into a period.
struct Work {
    chain: *mut c_void,
    out: u64,
}

impl Work {
    fn new() -> Result<Self, Error> {
        open()?;
        let (chain, out) = (chain()?, memory(64 << 20)?);
        Ok(Self { chain, out })
    }

    fn submit(&self) -> Result<(), Error> {
        launch(self.chain, 2_112, 256, &mut [self.out, 200, 0, 0])
    }
}

/// When a block's period begins. The one behind it is the other client's.
const fn begin_ns(block: u64) -> u64 {
    BEGIN_NS + 2 * block * PERIOD_NS
}

/// How many kernels are let through in each period.
pub fn limited(blocks: u64) -> Result<Vec<f64>, Error> {
    let work = Work::new()?;
    let mut found = Vec::new();
    for block in 0..blocks {
        sleep_until(begin_ns(block))?;
        let mut count = 0_u32;
        loop {
            work.submit()?;
            // One that was held back until the next opening belongs to that.
            if now_ns()? >= begin_ns(block) + PERIOD_NS {
                break;
            }
            count += 1;
            sync()?;
        }
        sync()?;
        found.push(f64::from(count));
    }
    Ok(found)
}

/// How long such a kernel takes in between, in nanoseconds, one after the other.
pub fn free(blocks: u64) -> Result<Vec<f64>, Error> {
    let work = Work::new()?;
    let mut found = Vec::new();
    for block in 0..blocks {
        sleep_until(begin_ns(block) + PERIOD_NS + AFTER_NS)?;
        let (begun_ns, mut count) = (now_ns()?, 0_u32);
        let mut spent_ns = 0;
        while spent_ns < ALONE_NS {
            work.submit()?;
            sync()?;
            count += 1;
            spent_ns = now_ns()? - begun_ns;
        }
        found.push(spent_ns as f64 / f64::from(count));
    }
    Ok(found)
}
