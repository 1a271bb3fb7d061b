//! The share of a device that a limiter leaves its client: the number of kernels that it admits in
//! each period, and the time of such a kernel for a client without a limit.

use std::ffi::c_void;

use crate::Error;
use crate::figures::{BEGIN_NS, chain, launch, memory, now_ns, open, sleep_until, sync};

/// The limiter's period, which begins with the first launch.
const PERIOD_NS: u64 = 120_000_000;
/// The client without a limit starts this long after a period of the limited client, and measures
/// for this long.
const AFTER_NS: u64 = 5_000_000;
const ALONE_NS: u64 = 40_000_000;

/// A kernel that is short beside a period.
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

/// Start of a block's period. The next period belongs to the client without a limit.
const fn begin_ns(block: u64) -> u64 {
    BEGIN_NS + 2 * block * PERIOD_NS
}

/// Number of admitted kernels in each period.
pub fn limited(blocks: u64) -> Result<Vec<f64>, Error> {
    let work = Work::new()?;
    let mut found = Vec::new();
    for block in 0..blocks {
        sleep_until(begin_ns(block))?;
        let mut count = 0_u32;
        loop {
            work.submit()?;
            // A launch that was delayed to the next period counts there.
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

/// Mean time of such a kernel without a limit, in nanoseconds.
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
