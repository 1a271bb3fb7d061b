//! Fragments of a diverged warp: where they split, and where they can reconverge.

use super::address::lanes;
use super::warp::{Fragment, Wait, Warp};
use crate::fault::FaultKind;

/// Moves `lanes` out of fragment `at` into a new fragment at `pc`.
pub(super) fn split(warp: &mut Warp, at: usize, lanes: u32, pc: u32) {
    let old = &mut warp.fragments[at];
    old.mask &= !lanes;
    let new = Fragment { mask: lanes, pc, wait: Wait::Ready, forced: false, ..*old };
    warp.fragments.push(new);
}

/// The next address at which fragment `at` can reconverge with another one.
pub(super) fn meeting_point(warp: &Warp, at: usize) -> u32 {
    let mine = warp.fragments[at];
    let others = warp.fragments.iter().filter(|other| {
        other.frame == mine.frame && other.pc > mine.pc && !matches!(other.wait, Wait::Barrier(_))
    });
    others.map(|other| other.pc).min().unwrap_or(u32::MAX)
}

/// `brx.idx`: each lane jumps to the entry with its index.
pub(super) fn table_branch(
    warp: &mut Warp,
    at: usize,
    index: u16,
    targets: &[u32],
    active: u32,
) -> Result<(), (usize, FaultKind)> {
    let Fragment { mask, pc, frame, .. } = warp.fragments[at];
    let row = warp.frames[frame].r32[usize::from(index)];
    for lane in lanes(active) {
        if row[lane] as usize >= targets.len() {
            return Err((lane, FaultKind::InvalidPc { addr: u64::from(row[lane]) }));
        }
    }
    if mask != active {
        split(warp, at, mask & !active, pc + 1);
    }
    let first = active.trailing_zeros() as usize & 31;
    let mut left = active;
    for (index, target) in targets.iter().enumerate() {
        let going = lanes(left)
            .filter(|lane| row[*lane] as usize == index)
            .fold(0u32, |mask, lane| mask | 1 << lane);
        if going == 0 || index == row[first] as usize {
            continue;
        }
        split(warp, at, going, *target);
        left &= !going;
    }
    warp.fragments[at].pc = targets[row[first] as usize];
    Ok(())
}
