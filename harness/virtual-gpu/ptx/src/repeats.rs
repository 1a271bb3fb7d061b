//! Loops whose iterations differ in a count and in nothing else.
//!
//! A load generator keeps a device busy with one loop, and what its next million iterations cost
//! can be told from a few. This says which loops can be told from so: they are entered at their
//! head, left past their last step, and what changes from one iteration to the next decides neither
//! on a path inside nor on an address. The test at the end must be an integer comparison of values
//! that only additions make. `exec/leap.rs` watches such loops run.
//!
//! What loads bring is taken to change each time. Whatever else could tell iterations apart, such
//! as a clock, a call, a barrier or an atomic, rules a loop out.

use super::inst::{Cmp, CmpKind, Inst, IntOp, SetP};
use super::module::FuncCode;
use super::types::Space;

/// A loop from the step at which it begins to the branch that goes back there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loop {
    pub head: u32,
    pub back: u32,
    /// The comparison whose result the branch goes by.
    pub test: u32,
}

/// The loops of a function that may turn out to repeat themselves, by the step that goes back.
pub(crate) fn loops(func: &FuncCode) -> Vec<Loop> {
    let steps = 0..func.code.len();
    steps.filter_map(|back| closed(func, back)).collect()
}

/// The loop that a step closes, if it is one of a kind that can be told about.
fn closed(func: &FuncCode, back: usize) -> Option<Loop> {
    let Inst::Bra { target } = func.code[back] else {
        return None;
    };
    let head = target as usize;
    let guard = func.info[back].guard?;
    if head > back || !(head..=back).all(|at| is_tame(func, at, head, back)) {
        return None;
    }
    // The comparison and everything after it are one straight piece, and its result is its own.
    let predicate = first_predicate(func) + usize::from(guard.row);
    let mut makers = (head..back).filter(|&at| writes(func, at).any(|row| row == predicate));
    let (test, None) = (makers.next()?, makers.next()) else {
        return None;
    };
    let Inst::SetP(SetP {
        kind,
        cmp,
        p,
        combine: None,
        ..
    }) = func.code[test]
    else {
        return None;
    };
    let is_integer = matches!(
        kind,
        CmpKind::U32 | CmpKind::S32 | CmpKind::U64 | CmpKind::S64
    ) && matches!(
        cmp,
        Cmp::Eq | Cmp::Ne | Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge
    );
    let operands: Vec<usize> = reads(func, test).collect();
    let is_last = (test + 1..back).all(|at| {
        !matches!(func.code[at], Inst::Bra { .. })
            && writes(func, at).all(|row| !operands.contains(&row))
    }) && (head..back)
        .all(|at| !matches!(func.code[at], Inst::Bra { target } if target as usize > test));
    let good = is_integer && is_last && p == guard.row && func.info[test].guard.is_none();
    good.then_some(Loop {
        head: head as u32,
        back: back as u32,
        test: test as u32,
    })
}

/// Whether a step of a loop is of a kind that a count may stand for, and stays inside.
fn is_tame(func: &FuncCode, at: usize, head: usize, back: usize) -> bool {
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
        | Inst::Nanosleep { .. }
        | Inst::Special32 { .. }
        | Inst::Special64 { .. } => false,
        _ => true,
    }
}

/// The rows that decide how long a loop goes on, given those that were seen to change from one
/// iteration to the next. `None` if something else goes by what changes: then nothing can be told.
pub(crate) fn counters(func: &FuncCode, of: Loop, changed: &[usize]) -> Option<Vec<usize>> {
    let region = of.head as usize..of.back as usize;
    let mut varies = vec![false; func.flat_rows()];
    for &row in changed {
        varies[row] = true;
    }
    spread(func, region.clone(), &mut varies, |func, at, varies| {
        let loads = matches!(&func.code[at], Inst::Load(access) if access.space != Space::Param);
        loads || reads(func, at).any(|row| varies[row])
    });
    let wide = |row: u16| {
        let flat = usize::from(func.rows32) + usize::from(row);
        varies.get(flat).copied().unwrap_or(false)
    };
    let led = |at: usize| {
        let guard = func.info[at].guard;
        let guarded = guard.is_some_and(|g| varies[first_predicate(func) + usize::from(g.row)]);
        guarded
            || match &func.code[at] {
                Inst::Load(access) | Inst::Store(access) => wide(access.base),
                _ => false,
            }
    };
    if region.clone().any(led) {
        return None;
    }
    // What the comparison goes by, back to the values with which an iteration begins.
    let mut counts = vec![false; func.flat_rows()];
    for row in reads(func, of.test as usize).filter(|&row| varies[row]) {
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

/// Marks what the marked steps write until nothing is added.
fn spread(
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
            | Inst::Int32 {
                op: IntOp::Add | IntOp::Sub,
                ..
            }
            | Inst::Int64 {
                op: IntOp::Add | IntOp::Sub,
                ..
            }
    )
}

/// Flat number of the first predicate.
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

/// How often in a row a comparison goes on holding, beyond now, where its operands grow by the same
/// amounts each time. Steps are taken modulo the width; a value that would pass the end of its type
/// ends the count, since what it means beyond is another matter.
pub(crate) fn holds_for(test: &SetP, negated: bool, a: [u64; 2], b: [u64; 2]) -> u64 {
    let bits = match test.kind {
        CmpKind::U32 | CmpKind::S32 => 32,
        _ => 64,
    };
    let is_order = !matches!(test.cmp, Cmp::Eq | Cmp::Ne);
    let count = |signed: bool| count(test.cmp, negated, signed, bits, a, b);
    match test.kind {
        // Equality is the same in both readings; the one that goes further is as true.
        _ if !is_order => count(true).max(count(false)),
        CmpKind::S32 | CmpKind::S64 => count(true),
        _ => count(false),
    }
}

fn count(cmp: Cmp, negated: bool, signed: bool, bits: u32, a: [u64; 2], b: [u64; 2]) -> u64 {
    let as_signed = |value: u64| i128::from((value << (64 - bits)) as i64 >> (64 - bits));
    let as_unsigned = |value: u64| i128::from(value << (64 - bits) >> (64 - bits));
    let value = |value| {
        if signed {
            as_signed(value)
        } else {
            as_unsigned(value)
        }
    };
    let [least, most] = if signed {
        [-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1]
    } else {
        [0, (1i128 << bits) - 1]
    };
    // The smaller of the two steps that are the same modulo the width.
    let step = |[_, step]: [u64; 2]| as_signed(step);
    let room = |[now, by]: [u64; 2]| {
        let (now, by) = (value(now), as_signed(by));
        match by {
            0 => i128::MAX,
            by if by > 0 => (most - now) / by,
            by => (now - least) / -by,
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
    // Where it changes, if it does: at zero or beside it.
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
