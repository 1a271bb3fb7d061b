//! Numbers that stand for contents which were not computed.
//!
//! A sampled launch leaves its outputs uncomputed. Each such launch has a number that follows from
//! its kernel, shape and arguments without addresses, and from the contents that it read. An
//! allocation has the sum of the numbers of the launches that wrote to it, of each the last one.
//! So equal work gives equal contents in every process, and a digest of them can be compared, which
//! is all that a load generator does with them. The values are not those of the kernel.

use std::collections::HashMap;

use crate::launch::Key;
use crate::process::Process;
use crate::tables::Tables;
use gpubench_virtual_gpu_model::machine::Defects;

/// The writes behind one allocation, by what repeats them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandIn {
    writes: HashMap<u64, u64>,
    sum: u64,
}

impl StandIn {
    /// Notes a write; an earlier one of the same launch is overwritten.
    pub(crate) fn note(&mut self, launch: u64, number: u64) {
        let before = self.writes.insert(launch, number).unwrap_or(0);
        self.sum = self.sum.wrapping_sub(before).wrapping_add(number);
    }

    /// The contents: never 0, which stands for computed ones.
    pub(crate) fn contents(&self) -> u64 {
        mix(self.sum, 1) | 1
    }
}

impl Tables {
    /// What stands for the contents of an allocation; 0 where they were computed.
    pub(crate) fn stand_in(&self, start: u64) -> u64 {
        let unwritten = self.allocations.get(&start).is_some_and(|entry| entry.unwritten);
        let found = self.stand_ins.get(&start).filter(|_| unwritten);
        found.map_or(0, StandIn::contents)
    }

    /// Notes a sampled launch with this identity. `wrong` is 0, or changes what it writes.
    pub(crate) fn stand_in_for_launch(
        &mut self,
        launch: u64,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
        wrong: u64,
    ) {
        let is_written = |start: &u64| writes.iter().any(|(written, _)| written == start);
        let inputs = reads.iter().map(|(start, _)| *start).filter(|start| !is_written(start));
        let number = inputs.fold(launch, |number, start| mix(number, self.stand_in(start)));
        for (ordinal, &(start, _)) in (0..).zip(writes) {
            let noted = self.stand_ins.entry(start).or_default();
            noted.note(launch, mix(number, ordinal) ^ wrong);
        }
    }

    /// Notes that a skipped operation wrote a whole allocation.
    pub(crate) fn stand_in_for_all(&mut self, start: u64, number: u64) {
        let mut whole = StandIn::default();
        whole.note(0, mix(number, 2));
        self.stand_ins.insert(start, whole);
    }
}

/// The identity of a launch: equal for identical launches of all processes.
pub(crate) fn identity(tables: &Tables, key: &Key) -> u64 {
    let mut number = key.name.bytes().fold(key.hash, |number, byte| mix(number, byte.into()));
    for side in key.grid.iter().chain(&key.block).chain([&key.shared_bytes]) {
        number = mix(number, u64::from(*side));
    }
    let mut pointees = Vec::new();
    for bytes in key.params.chunks(8) {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(raw);
        // A value inside an allocation is taken for an address.
        number = match tables.covering(value, 1) {
            Some((start, _)) => {
                let known = pointees.iter().position(|&other| other == start);
                let ordinal = known.unwrap_or(pointees.len());
                pointees.push(start);
                mix(mix(number, ordinal as u64), value - start)
            }
            None => mix(number, value),
        };
    }
    number
}

/// Bytes that follow from `contents` for a part of an allocation at this place.
pub(crate) fn bytes(contents: u64, at: u64, bytes: u64) -> Vec<u8> {
    let first = at / 8 * 8;
    let from = (at - first) as usize;
    let mut all = vec![0; (from + bytes as usize).next_multiple_of(8)];
    let (words, _) = all.as_chunks_mut();
    for (word, place) in words.iter_mut().zip((first..).step_by(8)) {
        *word = mix(contents, place).to_le_bytes();
    }
    all.drain(..from);
    all.truncate(bytes as usize);
    all
}

/// A number from two, in which every bit depends on all bits of both.
fn mix(one: u64, other: u64) -> u64 {
    let mut all = (one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(other);
    all = (all ^ (all >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    all = (all ^ (all >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    all ^ (all >> 32)
}

/// How the machine's planted defects change what a sampled launch writes; 0 for not at all.
pub(crate) fn planted(process: &Process, key: &Key) -> u64 {
    let defects = &process.device.machine().defects;
    if defects.wrong_result_threads == [0, 0] || !is_among(defects, key) {
        return 0;
    }
    let Ok(own) = process.device.process() else { return 0 };
    let other = process.device.shared().read(|state| {
        let mut live = state.contexts.live().iter();
        live.find(|context| context.live && context.process != own).map(|one| one.process)
    });
    let Ok(Some(other)) = other else { return 0 };
    let mut tables = process.tables();
    tables.launches.planted += 1;
    wrong(defects, tables.launches.planted, mix(other.into(), 3))
}

fn is_among(defects: &Defects, key: &Key) -> bool {
    let threads: u64 = key.grid.iter().chain(&key.block).map(|&side| u64::from(side)).product();
    let [from, to] = defects.wrong_result_threads;
    (u64::from(from)..=u64::from(to)).contains(&threads)
}

/// The change of launch `number`, counted from 1, beside a process whose contents are `theirs`.
fn wrong(defects: &Defects, number: u64, theirs: u64) -> u64 {
    const BIT: u64 = 1 << 17;
    if defects.buffers_swapped {
        return theirs;
    }
    match defects.bit_flips_in_launch {
        // A cell of memory that does not take its bit any more.
        0 => BIT,
        one if number == u64::from(one) => BIT,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contents after these launches, over and over, of which one can go wrong.
    fn after(requests: u64, cycle: u64, wrong_in: Option<u64>) -> u64 {
        let mut tables = Tables::default();
        tables.enter(64, 4096, 0, 0, crate::entries::Origin::Plain);
        for request in 0..requests {
            let wrong = u64::from(wrong_in == Some(request)) << 17;
            tables.wrote(64, true);
            tables.stand_in_for_launch(7 + request % cycle, &[], &[(64, 0)], wrong);
        }
        tables.stand_in(64)
    }

    #[test]
    fn contents_follow_from_the_last_launch_of_each_kind() {
        let alone = after(16, 16, None);
        assert_eq!(after(64, 16, None), alone);
        assert_eq!(after(61, 16, None), alone, "in another order");
        assert_ne!(after(15, 16, None), alone, "one was never launched");
        assert_ne!(after(64, 16, Some(63)), alone);
        assert_eq!(after(64, 16, Some(3)), alone, "overwritten");
    }

    /// A digest after the last request finds a wrong bit of one launch if none overwrote it: the
    /// share that the report prints, `cycle / requests`.
    #[test]
    fn a_flip_in_one_launch_is_found_as_often_as_the_report_says() {
        const PLANTS: u64 = 200;
        for (requests, cycle) in [(16, 16), (64, 16), (400, 16), (50, 1)] {
            let alone = after(cycle, cycle, None);
            let at = |plant: u64| mix(plant, requests) % requests;
            let found = (0..PLANTS).filter(|&n| after(requests, cycle, Some(at(n))) != alone);
            let (found, share) = (found.count() as f64, cycle as f64 / requests as f64);
            let expected = PLANTS as f64 * share;
            let sd = (expected * (1.0 - share)).sqrt();
            assert!((found - expected).abs() <= 3.0 * sd, "{found} of {PLANTS}, {expected}");
        }
    }

    #[test]
    fn a_wrong_input_makes_a_wrong_output() {
        let output = |wrong: u64| {
            let mut tables = Tables::default();
            for start in [64, 8192] {
                tables.enter(start, 4096, 0, 0, crate::entries::Origin::Plain);
                tables.wrote(start, true);
            }
            tables.stand_in_for_launch(7, &[], &[(64, 0)], wrong);
            tables.stand_in_for_launch(8, &[(64, 0)], &[(8192, 0)], 0);
            tables.stand_in(8192)
        };
        assert_eq!(output(0), output(0));
        assert_ne!(output(0), output(1 << 17));
    }

    #[test]
    fn a_planted_machine_keeps_one_bit_wrong_or_flips_it_once_or_swaps() {
        let mut defects = Defects { wrong_result_threads: [1, 9], ..Defects::default() };
        let all = |defects: &Defects| [1, 2, 3].map(|number| wrong(defects, number, 99));
        assert_eq!(all(&defects), [1 << 17; 3]);
        defects.bit_flips_in_launch = 2;
        assert_eq!(all(&defects), [0, 1 << 17, 0]);
        defects.buffers_swapped = true;
        assert_eq!(all(&defects), [99; 3]);
    }
}
