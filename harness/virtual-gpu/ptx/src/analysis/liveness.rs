//! How many registers are live at once: the estimate of a thread's register need.

use crate::code::FuncCode;
use crate::inst::Inst;
use crate::types::Space;

/// Maximum number of 32-bit registers live at once, by backward data flow over the decoded steps.
///
/// Constants, parameters of the kernel and predicates do not count: compilers fold the first, read
/// the second from constant memory, and have separate registers for the third. Functions too large
/// for the quadratic worst case get their register count.
pub(crate) fn registers(func: &FuncCode) -> u32 {
    let rows = usize::from(func.rows32) + usize::from(func.rows64);
    let words = rows.div_ceil(64);
    if words.saturating_mul(func.code.len()) > 4_000_000 {
        return u32::from(func.rows32) + 2 * u32::from(func.rows64);
    }
    let mut constant = vec![false; rows];
    for (row, _) in &func.const32 {
        constant[usize::from(*row)] = true;
    }
    for (row, _) in &func.const64 {
        constant[usize::from(func.rows32) + usize::from(*row)] = true;
    }
    mark_parameters(func, &mut constant);
    let mut live = vec![0u64; words * (func.code.len() + 1)];
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..func.code.len()).rev() {
            changed |= update(func, &mut live, words, rows, &constant, at);
        }
    }
    let wide_from = usize::from(func.rows32);
    let cost = |word: usize, bits: u64| -> u32 {
        (0..64)
            .filter(|bit| bits >> bit & 1 == 1)
            .map(|bit| if word * 64 + bit >= wide_from { 2 } else { 1 })
            .sum()
    };
    let max_live = live
        .chunks(words.max(1))
        .map(|at| at.iter().enumerate().map(|(word, bits)| cost(word, *bits)).sum::<u32>())
        .max();
    // A thread needs a few registers in any case; ptxas reports at least 2 to 8.
    max_live.unwrap_or(0).max(4)
}

/// Marks the rows that hold a parameter of the kernel and nothing else.
fn mark_parameters(func: &FuncCode, constant: &mut [bool]) {
    let mut writes = vec![0u32; constant.len()];
    let mut parameter = vec![false; constant.len()];
    for (inst, info) in func.code.iter().zip(&func.info) {
        let (from, to) = info.writes;
        let is_load = matches!(inst, Inst::Load(access) if access.space == Space::Param);
        for row in &func.deps[from as usize..to as usize] {
            if let Some(writes) = writes.get_mut(*row as usize) {
                *writes += 1;
                parameter[*row as usize] = is_load;
            }
        }
    }
    for (row, constant) in constant.iter_mut().enumerate() {
        *constant |= parameter[row] && writes[row] == 1;
    }
}

fn update(
    func: &FuncCode,
    live: &mut [u64],
    words: usize,
    rows: usize,
    constant: &[bool],
    at: usize,
) -> bool {
    let info = &func.info[at];
    let mut set = vec![0u64; words];
    let mut join = |target: usize| {
        for (mine, theirs) in set.iter_mut().zip(&live[target * words..][..words]) {
            *mine |= theirs;
        }
    };
    match &func.code[at] {
        Inst::Bra { target } => join(*target as usize),
        Inst::BraTable { table, .. } => {
            func.tables[*table as usize].iter().for_each(|target| join(*target as usize));
        }
        _ => {}
    }
    let ends = matches!(func.code[at], Inst::Bra { .. } | Inst::Ret | Inst::Exit);
    if !ends || info.guard.is_some() {
        join(at + 1);
    }
    let rows_of = |(from, to): (u32, u32)| {
        func.deps[from as usize..to as usize].iter().map(|row| *row as usize)
    };
    if info.guard.is_none() {
        for row in rows_of(info.writes).filter(|row| *row < rows) {
            set[row / 64] &= !(1 << (row % 64));
        }
    }
    for row in rows_of(info.reads).filter(|row| *row < rows && !constant[*row]) {
        set[row / 64] |= 1 << (row % 64);
    }
    let mine = &mut live[at * words..][..words];
    let changed = *mine != *set;
    mine.copy_from_slice(&set);
    changed
}
