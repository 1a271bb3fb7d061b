//! Atomics and reductions: lanes in order, each a plain read, modify, write.

use super::super::counts::HotWord;
use super::super::inst::{Atom, AtomOp, NO_ROW};
use super::super::types::{Space, Ty, window};
use super::access::{LaneFault, Reach, addresses, lanes, read_value, sector_bytes, write_value};
use super::frame::Frame;

impl Reach<'_, '_, '_> {
    /// Runs an atomic of the active lanes.
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
        let mut places = all;
        self.place_near(&mut places, device);
        let reached = lanes(device).map(|lane| places[lane]);
        self.counts.translations += self.near.translate(reached);
        for lane in lanes(device) {
            let address = all[lane];
            let atomics = self.near.atomic_on(address);
            if atomics > self.counts.hot_word.atomics {
                self.counts.hot_word = HotWord { address, atomics };
            }
        }
        let wide = atom.ty.is_wide();
        for lane in lanes(active) {
            let b = frame.lane(wide, atom.b, lane);
            let c = if atom.c == NO_ROW {
                0
            } else {
                frame.lane(wide, atom.c, lane)
            };
            let bytes = self
                .atomic_bytes(atom.space, lane, all[lane], size)
                .map_err(|kind| (lane, kind))?;
            let old = read_value(bytes, atom.ty);
            write_value(bytes, atom.ty, apply(atom.op, atom.ty, old, b, c));
            if device >> lane & 1 == 1
                && let Some(place) = self.memory.find(all[lane], size)
            {
                // The store was noted on the way; an atomic reads as well.
                self.footprint.mark(place.range, place.offset, size, false);
            }
            if atom.d != NO_ROW {
                frame.set_lane(wide, atom.d, lane, old);
            }
        }
        Ok(())
    }
}

/// The new value (PTX ISA, "atom").
pub(crate) fn apply(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    // Values of 32 bits stand zero-extended; order them as their type says.
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
