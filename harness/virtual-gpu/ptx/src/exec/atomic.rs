//! Atomics and reductions: lanes in order, each a read, modify, write that no other thread divides.

use std::sync::{Mutex, PoisonError};

use super::access::{
    LaneFault, WarpMemory, addresses, is_contiguous, read_value, sector_bytes, write_value,
};
use super::warp::{Frame, lanes};
use crate::counts::HotWord;
use crate::operands::{Atom, NO_ROW};
use crate::ops::AtomOp;
use crate::program::Row32;
use crate::types::{Space, Ty, window};

/// Held for each atomic of a warp on device memory: launches of several streams are executed by the
/// threads that make them, and may add to one word at the same time.
static DEVICE_ATOMICS: Mutex<()> = Mutex::new(());

impl WarpMemory<'_, '_, '_> {
    pub(crate) fn atomic(
        &mut self,
        frame: &mut Frame,
        atom: &Atom,
        active: u32,
    ) -> Result<(), LaneFault> {
        let all = addresses(frame, atom.base, atom.offset);
        let size = u64::from(atom.ty.bytes());
        let mut device = active;
        for lane in lanes(active) {
            if atom.space == Space::Shared || all[lane] >= window::CODE_BASE {
                device &= !(1 << lane);
            }
        }
        self.counts.atomics += u64::from(active.count_ones());
        self.counts.device_atomics += u64::from(device.count_ones());
        let on_chip = u64::from((active & !device).count_ones());
        self.counts.shared_bytes += on_chip * size;
        self.counts.atomic_sector_bytes += sector_bytes(&all, device);
        let mut cached = all;
        self.make_cache_addresses(&mut cached, device);
        let reached = lanes(device).map(|lane| cached[lane]);
        self.counts.translations += self.l1_tlb.translate(reached);
        for lane in lanes(device) {
            let address = all[lane];
            let atomics = self.l1_tlb.atomic_on(address);
            if atomics > self.counts.hot_word.atomics {
                self.counts.hot_word = HotWord { address, atomics };
            }
        }
        let _alone =
            (device != 0).then(|| DEVICE_ATOMICS.lock().unwrap_or_else(PoisonError::into_inner));
        if active == u32::MAX && device == active && self.adds_contiguous(frame, atom, &all) {
            return Ok(());
        }
        let wide = atom.ty.is_wide();
        for lane in lanes(active) {
            let b = frame.lane(wide, atom.b, lane);
            let c = if atom.c == NO_ROW { 0 } else { frame.lane(wide, atom.c, lane) };
            let bytes = self
                .atomic_bytes(atom.space, lane, all[lane], size)
                .map_err(|kind| (lane, kind))?;
            let old = read_value(bytes, atom.ty);
            let new = apply(atom.op, atom.ty, old, b, c);
            write_value(bytes, atom.ty, new);
            self.memory.changes += u64::from(new != old);
            if device >> lane & 1 == 1
                && let Some(location) = self.memory.find(all[lane], size)
            {
                // The store is already recorded; an atomic reads as well.
                self.footprint.mark(location.range, location.offset, size, false);
            }
            if atom.d != NO_ROW {
                frame.set_lane(wide, atom.d, lane, old);
            }
        }
        Ok(())
    }

    /// Runs an addition of a full warp to consecutive words of device memory, with one address
    /// lookup for all lanes. Does nothing and returns false for any other access.
    fn adds_contiguous(&mut self, frame: &mut Frame, atom: &Atom, all: &[u64; 32]) -> bool {
        let size = u64::from(atom.ty.bytes());
        let in_a_row = all[0].is_multiple_of(size) && is_contiguous(all, size);
        if atom.op != AtomOp::Add || !in_a_row {
            return false;
        }
        let total = 32 * size;
        let Ok(location) = self.memory.locate(all[0], total, true) else { return false };
        for write in [true, false] {
            self.footprint.mark(location.range, location.offset, total, write);
        }
        self.memory.changes += 1;
        let words = self.memory.bytes_mut(location, total as usize);
        match atom.ty {
            // The common case: one addition of rows.
            Ty::U32 | Ty::S32 => {
                let (words, _) = words.as_chunks_mut::<4>();
                let by = std::array::from_fn(|lane| frame.lane(false, atom.b, lane) as u32);
                let old = add_words(words, &by);
                if atom.d != NO_ROW {
                    frame.r32[usize::from(atom.d)] = old;
                }
            }
            ty => {
                for (lane, bytes) in words.chunks_exact_mut(size as usize).enumerate() {
                    let old = read_value(bytes, ty);
                    let by = frame.lane(ty.is_wide(), atom.b, lane);
                    write_value(bytes, ty, apply(AtomOp::Add, ty, old, by, 0));
                    if atom.d != NO_ROW {
                        frame.set_lane(ty.is_wide(), atom.d, lane, old);
                    }
                }
            }
        }
        true
    }
}

/// Adds each lane's operand to its word; returns the old values.
fn add_words(words: &mut [[u8; 4]], by: &Row32) -> Row32 {
    let mut old = [0; 32];
    for ((word, old), by) in words.iter_mut().zip(&mut old).zip(by) {
        *old = u32::from_le_bytes(*word);
        *word = old.wrapping_add(*by).to_le_bytes();
    }
    old
}

/// The new value (PTX ISA, "atom").
pub(crate) fn apply(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    // Values of 32 bits are zero-extended; compare them by their type.
    let signed = |value: u64| match ty {
        Ty::S32 => i64::from(value as i32),
        _ => value as i64,
    };
    let less = |x: u64, y: u64| match ty.is_signed() {
        true => signed(x) < signed(y),
        false => x < y,
    };
    match op {
        AtomOp::Add => match ty {
            Ty::F32 => {
                let sum = f32::from_bits(old as u32) + f32::from_bits(b as u32);
                u64::from(super::float::canonical(sum))
            }
            Ty::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
            _ => old.wrapping_add(b),
        },
        AtomOp::Min => {
            if less(b, old) {
                b
            } else {
                old
            }
        }
        AtomOp::Max => {
            if less(old, b) {
                b
            } else {
                old
            }
        }
        AtomOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        AtomOp::And => old & b,
        AtomOp::Or => old | b,
        AtomOp::Xor => old ^ b,
        AtomOp::Exch => b,
        AtomOp::Cas => {
            let mask = u64::MAX >> (64 - 8 * ty.bytes());
            if old & mask == b & mask { c } else { old }
        }
    }
}
