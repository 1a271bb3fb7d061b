//! Register frames of the calls of a warp.

use crate::operands::{PredRef, Row};
use crate::program::{Row32, Row64, Template};

/// Registers of one call, for all lanes of the warp in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub function: usize,
    pub r32: Vec<Row32>,
    pub r64: Vec<Row64>,
    pub preds: Vec<u32>,
    /// Cycle at which each flat row is ready.
    pub ready: Vec<u64>,
    /// Index of the caller's frame; unused for the kernel itself.
    pub parent: usize,
    /// Call site in the caller.
    pub site: usize,
    pub return_pc: u32,
    /// Lanes that have not returned.
    pub live: u32,
    pub depth: u32,
    /// Where this call's variables start in a lane's local memory.
    pub local_base: u32,
    /// Stack bytes of a lane up to and including this call.
    pub stack_bytes: u32,
}

impl Frame {
    /// Resets the frame for a new call.
    pub(crate) fn reset(&mut self, function: usize, template: &Template, preds: u16, flat: usize) {
        self.function = function;
        self.r32.clone_from(&template.r32);
        self.r64.clone_from(&template.r64);
        self.preds.clear();
        self.preds.resize(usize::from(preds), 0);
        self.ready.clear();
        self.ready.resize(flat, 0);
        self.parent = 0;
        self.site = 0;
        self.return_pc = 0;
        self.live = 0;
        self.depth = 0;
        self.local_base = 0;
        self.stack_bytes = 0;
    }

    /// Whether both are the same call with the same contents, at whatever times.
    pub(crate) fn has_registers_of(&self, other: &Self) -> bool {
        let call = |f: &Self| (f.function, f.parent, f.site, f.return_pc, f.live, f.local_base);
        call(self) == call(other)
            && self.preds == other.preds
            && self.r32 == other.r32
            && self.r64 == other.r64
    }

    /// Lanes in which the predicate holds.
    #[inline(always)]
    pub(crate) fn pred(&self, pred: PredRef) -> u32 {
        let mask = self.preds[usize::from(pred.row)];
        if pred.negated { !mask } else { mask }
    }

    #[inline(always)]
    pub(crate) fn set_pred(&mut self, row: Row, active: u32, mask: u32) {
        let old = &mut self.preds[usize::from(row)];
        *old = (*old & !active) | (mask & active);
    }

    #[inline(always)]
    pub(crate) fn set32(&mut self, row: Row, active: u32, values: &Row32) {
        let old = &mut self.r32[usize::from(row)];
        if active == u32::MAX {
            *old = *values;
        } else {
            for lane in 0..32 {
                if active >> lane & 1 == 1 {
                    old[lane] = values[lane];
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn set64(&mut self, row: Row, active: u32, values: &Row64) {
        let old = &mut self.r64[usize::from(row)];
        if active == u32::MAX {
            *old = *values;
        } else {
            for lane in 0..32 {
                if active >> lane & 1 == 1 {
                    old[lane] = values[lane];
                }
            }
        }
    }

    /// One lane of the bank that `wide` selects.
    #[inline(always)]
    pub(crate) fn lane(&self, wide: bool, row: Row, lane: usize) -> u64 {
        if wide {
            self.r64[usize::from(row)][lane]
        } else {
            u64::from(self.r32[usize::from(row)][lane])
        }
    }

    /// Writes all lanes of the bank that `wide` selects.
    #[inline(always)]
    pub(crate) fn splat(&mut self, wide: bool, row: Row, value: u64) {
        if wide {
            self.r64[usize::from(row)] = [value; 32];
        } else {
            self.r32[usize::from(row)] = [value as u32; 32];
        }
    }

    #[inline(always)]
    pub(crate) fn set_lane(&mut self, wide: bool, row: Row, lane: usize, value: u64) {
        if wide {
            self.r64[usize::from(row)][lane] = value;
        } else {
            self.r32[usize::from(row)][lane] = value as u32;
        }
    }
}
