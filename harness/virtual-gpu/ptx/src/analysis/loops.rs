//! Loop analysis: finds loops whose iterations all cost the same.
//!
//! A candidate is entered at its head and left past its last step. No branch inside it and no
//! address depends on a value that changes between iterations. Its exit test is an integer
//! comparison of operands that only additions compute. `exec/extrapolate.rs` measures candidates
//! while they run and skips iterations.
//!
//! Loaded values count as changing. Clocks, calls, barriers, atomics and exchanges between lanes
//! rule a loop out.

use crate::code::{FuncCode, Loop};
use crate::inst::Inst;
use crate::operands::SetP;
use crate::ops::{Cmp, CmpKind, IntOp};
use crate::types::Space;

/// Candidates for extrapolation in a function, in the order of their back edges.
pub(crate) fn loops(func: &FuncCode) -> Vec<Loop> {
    let steps = 0..func.code.len();
    steps.filter_map(|back| candidate(func, back)).collect()
}

/// The candidate for which a step is the back edge.
fn candidate(func: &FuncCode, back: usize) -> Option<Loop> {
    let Inst::Bra { target } = func.code[back] else { return None };
    let head = target as usize;
    let guard = func.info[back].guard?;
    if head > back || !(head..=back).all(|at| can_extrapolate(func, at, head, back)) {
        return None;
    }
    // No branch lies between the comparison and the back edge, and nothing else sets its predicate.
    let predicate = first_predicate(func) + usize::from(guard.row);
    let mut makers = (head..back).filter(|&at| writes(func, at).any(|row| row == predicate));
    let (test, None) = (makers.next()?, makers.next()) else { return None };
    let Inst::SetP(SetP { kind, cmp, p, combine: None, .. }) = func.code[test] else { return None };
    let is_integer = matches!(kind, CmpKind::U32 | CmpKind::S32 | CmpKind::U64 | CmpKind::S64)
        && matches!(cmp, Cmp::Eq | Cmp::Ne | Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
    let operands: Vec<usize> = reads(func, test).collect();
    let is_last = (test + 1..back).all(|at| {
        !matches!(func.code[at], Inst::Bra { .. })
            && writes(func, at).all(|row| !operands.contains(&row))
    }) && (head..back)
        .all(|at| !matches!(func.code[at], Inst::Bra { target } if target as usize > test));
    let good = is_integer && is_last && p == guard.row && func.info[test].guard.is_none();
    good.then_some(Loop { head: head as u32, back: back as u32, test: test as u32 })
}

/// Whether a step of a loop can be extrapolated and stays inside the loop.
fn can_extrapolate(func: &FuncCode, at: usize, head: usize, back: usize) -> bool {
    match &func.code[at] {
        Inst::Bra { target } => (head..=back).contains(&(*target as usize)),
        Inst::BraTable { .. }
        | Inst::Call { .. }
        | Inst::Ret
        | Inst::Exit
        | Inst::Trap
        | Inst::Brkpt
        | Inst::Bar(_)
        | Inst::BarWarp { .. }
        | Inst::Atom(_)
        | Inst::Shfl(_)
        | Inst::Vote { .. }
        | Inst::Match { .. }
        | Inst::ActiveMask { .. }
        | Inst::Nanosleep(_)
        | Inst::Special32 { .. }
        | Inst::Special64 { .. } => false,
        _ => true,
    }
}

/// The rows that the exit test depends on, given the rows that changed between iterations. `None`
/// if a branch or an address depends on a changing row as well.
pub(crate) fn exit_operands(
    func: &FuncCode,
    looped: Loop,
    changed: &[usize],
) -> Option<Vec<usize>> {
    let region = looped.head as usize..looped.back as usize;
    let mut varies = vec![false; func.flat_rows()];
    for &row in changed {
        varies[row] = true;
    }
    close(func, region.clone(), &mut varies, |func, at, varies| {
        let loads = match &func.code[at] {
            Inst::Load(access) => access.space != Space::Param,
            inst => matches!(inst, Inst::Fetch(_)),
        };
        loads || reads(func, at).any(|row| varies[row])
    });
    let wide = |row: u16| {
        let flat = usize::from(func.rows32) + usize::from(row);
        varies.get(flat).copied().unwrap_or(false)
    };
    let depends = |at: usize| {
        let guard = func.info[at].guard;
        let guarded = guard.is_some_and(|g| varies[first_predicate(func) + usize::from(g.row)]);
        guarded
            || match &func.code[at] {
                Inst::Load(access) | Inst::Store(access) => wide(access.base),
                _ => false,
            }
    };
    if region.clone().any(depends) {
        return None;
    }
    // The operands of the comparison, back to the values at the start of an iteration.
    let mut counts = vec![false; func.flat_rows()];
    for row in reads(func, looped.test as usize).filter(|&row| varies[row]) {
        counts[row] = true;
    }
    loop {
        let mut grown = false;
        for at in region.clone() {
            if !writes(func, at).any(|row| counts[row]) {
                continue;
            }
            if !adds(&func.code[at]) {
                return None;
            }
            for row in reads(func, at).filter(|&row| varies[row]) {
                grown |= !std::mem::replace(&mut counts[row], true);
            }
        }
        if !grown {
            break;
        }
    }
    Some((0..counts.len()).filter(|&row| counts[row]).collect())
}

/// Marks the results of marked steps until the set is closed.
fn close(
    func: &FuncCode,
    region: std::ops::Range<usize>,
    marked: &mut [bool],
    is_marked: impl Fn(&FuncCode, usize, &[bool]) -> bool,
) {
    loop {
        let mut grown = false;
        for at in region.clone() {
            if is_marked(func, at, marked) {
                for row in writes(func, at) {
                    grown |= !std::mem::replace(&mut marked[row], true);
                }
            }
        }
        if !grown {
            return;
        }
    }
}

/// Whether a step's result is a sum of its operands, in the arithmetic of its width.
fn adds(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::Mov32 { .. }
            | Inst::Mov64 { .. }
            | Inst::Int32 { op: IntOp::Add | IntOp::Sub, .. }
            | Inst::Int64 { op: IntOp::Add | IntOp::Sub, .. }
    )
}

pub(crate) fn first_predicate(func: &FuncCode) -> usize {
    usize::from(func.rows32) + usize::from(func.rows64)
}

fn reads(func: &FuncCode, at: usize) -> impl Iterator<Item = usize> {
    rows(func, func.info[at].reads)
}

/// Flat numbers of the rows that a step writes.
pub(crate) fn writes(func: &FuncCode, at: usize) -> impl Iterator<Item = usize> {
    rows(func, func.info[at].writes)
}

fn rows(func: &FuncCode, (from, to): (u32, u32)) -> impl Iterator<Item = usize> {
    let deps = &func.deps[from as usize..to as usize];
    deps.iter().map(|row| *row as usize)
}

/// Number of further iterations for which a comparison holds, if its operands grow by constant
/// amounts. Amounts are taken modulo the width; the count ends before an operand would overflow.
pub(crate) fn iterations_left(test: &SetP, negated: bool, a: [u64; 2], b: [u64; 2]) -> u64 {
    let bits = match test.kind {
        CmpKind::U32 | CmpKind::S32 => 32,
        _ => 64,
    };
    let is_order = !matches!(test.cmp, Cmp::Eq | Cmp::Ne);
    let count = |signed: bool| count(test.cmp, negated, signed, bits, a, b);
    match test.kind {
        // Equality is the same for both signs: the larger count is valid.
        _ if !is_order => count(true).max(count(false)),
        CmpKind::S32 | CmpKind::S64 => count(true),
        _ => count(false),
    }
}

fn count(cmp: Cmp, negated: bool, signed: bool, bits: u32, a: [u64; 2], b: [u64; 2]) -> u64 {
    let as_signed = |value: u64| i128::from((value << (64 - bits)) as i64 >> (64 - bits));
    let as_unsigned = |value: u64| i128::from(value << (64 - bits) >> (64 - bits));
    let value = |value| {
        if signed { as_signed(value) } else { as_unsigned(value) }
    };
    let [min, max] = if signed {
        [-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1]
    } else {
        [0, (1i128 << bits) - 1]
    };
    // Of the two steps that are equal modulo the width, the smaller one.
    let step = |[_, step]: [u64; 2]| as_signed(step);
    let room = |[now, by]: [u64; 2]| {
        let (now, by) = (value(now), as_signed(by));
        match by {
            0 => i128::MAX,
            by if by > 0 => (max - now) / by,
            by => (now - min) / -by,
        }
    };
    let (now, slope) = (value(a[0]) - value(b[0]), step(a) - step(b));
    let within = room(a).min(room(b));
    let holds = |distance: i128| {
        let is = match cmp {
            Cmp::Eq => distance == 0,
            Cmp::Ne => distance != 0,
            Cmp::Lt => distance < 0,
            Cmp::Le => distance <= 0,
            Cmp::Gt => distance > 0,
            _ => distance >= 0,
        };
        is != negated
    };
    // The comparison changes at distance zero or next to it, if it changes.
    if slope == 0 {
        return 0;
    }
    let zero = -now / slope;
    let ends = (zero - 2..=zero + 2).find(|&at| at >= 1 && !holds(now + at * slope));
    let lasting = match ends {
        Some(at) if (1..at).rev().take(5).all(|at| holds(now + at * slope)) => at - 1,
        Some(_) => 0,
        None if holds(now + slope) && holds(now + within * slope) => within,
        None => 0,
    };
    u64::try_from(lasting.min(within).max(0)).unwrap_or(0)
}
