//! Parts of the output that are read inside a window, beside the requests.
//!
//! A request writes what an earlier one of the same kind wrote, so once a cycle of requests has run
//! every byte has its final value and may be read at any instant, also while it is written again.
//! The reads have a stream of their own: in that of the requests, one behind a neighbour's long
//! copy would hold up the next request. What a read found is compared with the same bytes after
//! the cell, whose digest says whether those are right.

use gpubench_kernels::driver::{DevicePtr, DriverError, PinnedBuffer, Stream};

use super::Gpu;
use super::output::{Output, of_words};

/// Requests from one read to the next, at first: it doubles with every [`READS_PER_STEP`] reads, so
/// that short requests are not outnumbered by what is read and compared.
const REQUESTS_PER_READ: u64 = 8;
const READS_PER_STEP: u64 = 64;

/// Longest stripe: a copy of a few microseconds.
const WORDS_MAX: u64 = 512;
/// A stripe is at most this part of the output.
const STRIPES_MIN: u64 = 100;

pub(crate) struct Stripes {
    stream: Stream,
    pinned: PinnedBuffer<u64>,
    parts: Vec<(DevicePtr, u64)>,
    words: u64,
    order: Order,
    under_way: Option<Read>,
    done: Vec<Read>,
}

/// Which stripe is read after which request.
#[derive(Debug)]
struct Order {
    count: u64,
    /// The next one, in an order that visits each once and crosses the output in large steps.
    next: u64,
    step: u64,
    cycle: u64,
    requests: u64,
    reads: u64,
    due: u64,
    every: u64,
}

impl Order {
    fn new(count: u64, cycle: u64) -> Self {
        let (next, step) = (0, stride(count));
        let every = REQUESTS_PER_READ;
        Self { count, next, step, cycle, requests: 0, reads: 0, due: 0, every }
    }

    /// Begins a cell. The stripes go on where the last cell ended.
    fn begin(&mut self) {
        (self.requests, self.reads, self.every) = (0, 0, REQUESTS_PER_READ);
        self.due = self.cycle.max(self.every);
    }

    /// Notes that a request was submitted; whether a stripe is due.
    fn submitted(&mut self) -> bool {
        self.requests += 1;
        self.requests >= self.due
    }

    /// The stripe that is due, and the number of the request before it, from 0.
    fn take(&mut self) -> (u64, u64) {
        let taken = (self.next, self.requests - 1);
        self.next = (self.next + self.step) % self.count;
        self.reads += 1;
        if self.reads.is_multiple_of(READS_PER_STEP) {
            self.every *= 2;
        }
        self.due = self.requests + self.every;
        taken
    }
}

#[derive(Debug, Clone, Copy)]
struct Read {
    /// The last request before it, from 0.
    request: u64,
    stripe: u64,
    digest: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// Requests after which a stripe differed from what it is after the cell.
    pub(crate) wrong: Vec<u64>,
}

impl Stripes {
    /// Of an output that repeats after `cycle` requests; `None` where no part is on the device.
    pub(crate) fn of(
        gpu: &Gpu,
        output: &Output<'_>,
        cycle: usize,
    ) -> Result<Option<Self>, DriverError> {
        let parts = output.on_device();
        let total: u64 = parts.iter().map(|(_, words)| words).sum();
        let words = (total / STRIPES_MIN).min(WORDS_MAX);
        let count = parts.iter().map(|(_, of_part)| of_part.checked_div(words).unwrap_or(0)).sum();
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            stream: Stream::new(&gpu.context)?,
            pinned: PinnedBuffer::alloc(&gpu.context, words as usize)?,
            parts,
            words,
            order: Order::new(count, cycle as u64),
            under_way: None,
            done: Vec::new(),
        }))
    }

    pub(crate) fn begin(&mut self) {
        self.order.begin();
        self.under_way = None;
        self.done.clear();
    }

    /// Notes that a request was submitted, and reads a stripe where one is due.
    pub(crate) fn submitted(&mut self) -> Result<(), DriverError> {
        if !self.order.submitted() || !self.collect()? {
            return Ok(());
        }
        let (stripe, request) = self.order.take();
        if let Some(from) = self.place(stripe) {
            from.read_async(&self.pinned, self.words as usize, &self.stream)?;
            self.under_way = Some(Read { request, stripe, digest: 0 });
        }
        Ok(())
    }

    /// Takes in the read under way, if it is complete; whether none is left.
    fn collect(&mut self) -> Result<bool, DriverError> {
        let Some(read) = self.under_way else { return Ok(true) };
        if !self.stream.is_done()? {
            return Ok(false);
        }
        let mut words = [0; WORDS_MAX as usize];
        let words = &mut words[..self.words as usize];
        self.pinned.read(0, words)?;
        self.done.push(Read { digest: of_words(words), ..read });
        self.under_way = None;
        Ok(true)
    }

    /// Compares what was read with what is there now. The device must be idle.
    pub(crate) fn finish(&mut self, gpu: &Gpu) -> Result<Found, DriverError> {
        self.stream.synchronize()?;
        self.collect()?;
        let mut words = vec![0_u64; self.words as usize];
        let mut wrong = Vec::new();
        for read in &self.done {
            if let Some(from) = self.place(read.stripe) {
                from.read(&gpu.context, &mut words)?;
                if of_words(&words) != read.digest {
                    wrong.push(read.request);
                }
            }
        }
        let reads = self.done.len() as u64;
        Ok(Found { reads, bytes: 8 * self.words * reads, wrong })
    }

    fn place(&self, stripe: u64) -> Option<DevicePtr> {
        let mut left = stripe;
        for (start, words) in &self.parts {
            let of_part = words / self.words;
            if left < of_part {
                return Some(start.offset_bytes(8 * left * self.words));
            }
            left -= of_part;
        }
        None
    }
}

/// A step near the golden section of `count` without a common divisor: successive multiples lie far
/// apart and visit every place.
fn stride(count: u64) -> u64 {
    let golden = (count as f64 * 0.618_033_988_749_895) as u64;
    (golden..count).find(|step| gcd(*step, count) == 1).unwrap_or(1)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use gpubench_record::OutputCheck;
    use gpubench_stats::ScheduleRng;

    use super::{Order, stride};

    /// A request writes a wrong word, which the next request of its kind overwrites.
    #[test]
    fn a_word_that_one_request_gets_wrong_is_seen_as_often_as_the_record_says() {
        const PLANTS: u32 = 20_000;
        const STRIPES: u64 = 100;
        let mut rng = ScheduleRng::new(1);
        for (requests, cycle) in [(400, 16), (1_000, 200), (5_000, 64)] {
            let mut order = Order::new(STRIPES, cycle);
            let (mut seen, mut chances) = (0_u32, 0.0);
            for _ in 0..PLANTS {
                let mut draw = |below: u64| (rng.uniform() * below as f64) as u64;
                let (request, stripe) = (draw(requests), draw(STRIPES));
                order.begin();
                let (mut reads, mut found) = (0, request + cycle >= requests);
                for _ in 0..requests {
                    if order.submitted() {
                        let (at, after) = order.take();
                        reads += 1;
                        found |= at == stripe && (request..request + cycle).contains(&after);
                    }
                }
                seen += u32::from(found);
                let check = OutputCheck {
                    bytes: STRIPES * 64,
                    cycle,
                    reads,
                    read_bytes: reads * 64,
                    ..OutputCheck::default()
                };
                chances += check.chance_of_one_request(requests);
            }
            let (seen, sd) = (f64::from(seen), chances.sqrt());
            assert!((seen - chances).abs() <= 4.0 * sd, "{requests} {cycle}: {seen} {chances}");
        }
    }

    #[test]
    fn every_stripe_has_its_turn_and_neighbours_in_time_lie_apart() {
        for count in [1, 2, 3, 100, 101, 4096, 65_537] {
            let step = stride(count);
            let mut seen = vec![false; count as usize];
            (0..count).for_each(|turn| seen[(turn * step % count) as usize] = true);
            assert!(seen.iter().all(|seen| *seen), "{count}");
            assert!(count < 100 || step > count / 3, "{count}: {step}");
        }
    }
}
