//! Spin detection: finds lanes that repeat a loop which only a write of other lanes can end.
//!
//! Lanes repeat themselves if all registers of their warp are equal at two passages of one backward
//! branch, and no memory changed in between. They then wait for a change of memory, as others wait
//! at a barrier, and their block is not run for polling. Where no lane is left that can change
//! memory, the launch never ends.
//!
//! What can end a loop without a write of this launch counts as a change: reads of a clock, and
//! reads of memory that others write meanwhile (`DeviceMemory::set_written_by_others`).

use super::access::addresses;
use super::machine::Machine;
use super::spin_state::Snapshot;
use super::warp::{Fragment, Frame, NEVER, Wait, Warp};
use crate::code::FuncCode;
use crate::inst::Inst;
use crate::operands::{NO_ROW, Row};
use crate::types::Space;

/// Passages after a snapshot in which it is compared. Loops around loops need several.
const COMPARISONS: u64 = 64;

impl Warp {
    pub(super) fn spinning(&self, changes: u64) -> Option<&Fragment> {
        let spins = |f: &&Fragment| f.wait == Wait::Ready && f.spins_since == changes;
        self.fragments.iter().find(spins)
    }
}

impl Machine<'_, '_, '_> {
    /// Called when the `active` lanes of a fragment branch back. True if they wait for a change of
    /// memory from now on.
    pub(super) fn branch_back(
        &mut self,
        warp: &mut Warp,
        at: usize,
        back: u32,
        active: u32,
    ) -> bool {
        let Fragment { mask, frame, .. } = warp.fragments[at];
        let together = mask == active;
        if self.extrapolate_after.is_some() {
            let alone = together && warp.fragments.len() == 1;
            self.end_of_iteration(warp, frame, back, alone.then_some(mask));
        }
        let (spin, changes) = (&mut warp.spin, self.memory.changes);
        if spin.changes != changes || spin.compare_at == 0 {
            spin.restart(changes);
        }
        spin.in_a_row = if spin.back == back { spin.in_a_row + 1 } else { 1 };
        spin.back = back;
        spin.passages += 1;
        together && spin.passages >= spin.compare_at && self.is_same_again(warp, at, back)
    }

    /// Takes a snapshot, or compares the warp with it.
    fn is_same_again(&mut self, warp: &mut Warp, at: usize, back: u32) -> bool {
        let Fragment { mask, frame, .. } = warp.fragments[at];
        let passage = warp.spin.passages;
        let Some(snapshot) = warp.spin.snapshot.take() else {
            warp.spin.snapshot = Some(Box::new(Snapshot {
                passage,
                back,
                mask,
                frame,
                frames: warp.frames.clone(),
                cycle: warp.cycle,
                counts: self.counts.clone(),
                turn: self.turn,
            }));
            return false;
        };
        let same = (snapshot.back, snapshot.mask, snapshot.frame) == (back, mask, frame)
            && snapshot.frames.len() == warp.frames.len()
            && (snapshot.frames.iter().zip(&warp.frames)).all(|(a, b)| a.has_registers_of(b));
        if !same {
            if passage < snapshot.passage + COMPARISONS {
                warp.spin.snapshot = Some(snapshot);
            } else {
                warp.spin.compare_at = 2 * passage;
            }
            return false;
        }
        self.take_back(warp, &snapshot);
        warp.fragments[at].spins_since = self.memory.changes;
        let function = warp.frames[frame].function;
        let func = &self.program.module().functions[function];
        if let Inst::Bra { target } = func.code[back as usize] {
            (warp.spin.polled, warp.spin.line) =
                polled(func, &warp.frames[frame], mask, (target, back));
        }
        true
    }

    /// Takes back the time and the counts of all but one of the repetitions: the device polls for
    /// as long as it takes, which [`Machine::resume`] knows. A snapshot of an earlier turn is no
    /// measure, as other warps have run since.
    fn take_back(&mut self, warp: &mut Warp, snapshot: &Snapshot) {
        let each = warp.spin.passages - snapshot.passage;
        let times = (warp.spin.in_a_row / each.max(1)).saturating_sub(1);
        if snapshot.turn != self.turn || times == 0 {
            return;
        }
        let counts = self.counts.since(&snapshot.counts);
        self.counts.subtract_times(&counts, times);
        self.executed = self.executed.saturating_sub(counts.lanes().saturating_mul(times));
        let cycles = (warp.cycle - snapshot.cycle).saturating_mul(times);
        warp.cycle = warp.cycle.saturating_sub(cycles);
        for ready in warp.frames.iter_mut().flat_map(|frame| &mut frame.ready) {
            *ready = (*ready).min(warp.cycle);
        }
    }

    /// Called before a warp runs: lanes that waited for a change of memory continue at the time of
    /// the last one.
    pub(super) fn resume(&self, warp: &mut Warp) {
        let changes = self.memory.changes;
        for fragment in &mut warp.fragments {
            if fragment.spins_since != NEVER && fragment.spins_since != changes {
                fragment.spins_since = NEVER;
                let changed = self.changed_cycle.saturating_sub(self.block.start_cycle);
                warp.cycle = warp.cycle.max(changed);
            }
        }
    }
}

/// The address that the first read of a loop reads in its first lane, with the line. No address if
/// the loop computes it anew each time.
fn polled(
    func: &FuncCode,
    frame: &Frame,
    mask: u32,
    (head, back): (u32, u32),
) -> (Option<u64>, u32) {
    let region = head as usize..=back as usize;
    let read = |at: usize| -> Option<(Row, i64)> {
        match &func.code[at] {
            Inst::Load(access) if access.space != Space::Param => {
                Some((access.base, access.offset))
            }
            Inst::Atom(atom) => Some((atom.base, atom.offset)),
            _ => None,
        }
    };
    let found = region.clone().find_map(|at| Some((at, read(at)?)));
    let Some((at, (base, offset))) = found else { return (None, func.info[back as usize].line) };
    let flat = u32::from(func.rows32) + u32::from(base);
    let written = |at: usize| {
        let (from, to) = func.info[at].writes;
        func.deps[from as usize..to as usize].contains(&flat)
    };
    let fixed = base == NO_ROW || !region.into_iter().any(written);
    let first = mask.trailing_zeros() as usize & 31;
    let address = fixed.then(|| addresses(frame, base, offset)[first]);
    (address, func.info[at].line)
}
