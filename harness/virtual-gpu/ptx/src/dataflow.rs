//! Whether what a function loads decides where it goes or what it touches.
//!
//! A kernel that only moves data, or computes on it, costs the same whatever the data are. One that
//! branches on what it loaded, or takes addresses from it, does not. The answer errs on the safe
//! side: the order of the steps is not looked at, and what passes through shared memory, a call or
//! another lane counts as loaded. One thing is let pass: an end that data decide on and that only
//! writes, as kernels have it whose loads no compiler may drop. It is one access a thread at most.

use super::inst::{Access, Inst, NO_ROW, Row};
use super::module::FuncCode;
use super::types::Space;

/// Whether what the function loads may change its path or its addresses.
pub(crate) fn follows_data(func: &FuncCode) -> bool {
    let mut loaded = vec![false; func.flat_rows()];
    loop {
        let mut changed = false;
        for at in 0..func.code.len() {
            if !brings_data(&func.code[at]) && !reads_any(func, at, &loaded) {
                continue;
            }
            for row in rows(func, func.info[at].writes) {
                changed |= !std::mem::replace(&mut loaded[row], true);
            }
        }
        if !changed {
            break;
        }
    }
    (0..func.code.len()).any(|at| is_led(func, at, &loaded))
}

/// Steps of an end that may be taken or not.
const END_STEPS: usize = 16;

/// Whether nothing but a few writes comes after a step, whichever way it goes.
fn only_ends(func: &FuncCode, at: usize) -> bool {
    let mut open = vec![at];
    let mut seen = 0;
    while let Some(step) = open.pop() {
        seen += 1;
        if seen > END_STEPS {
            return false;
        }
        match &func.code[step] {
            Inst::Exit | Inst::Ret if func.info[step].guard.is_none() => continue,
            Inst::Bra { target } => {
                let target = *target as usize;
                if target <= step {
                    return false;
                }
                open.push(target);
                if func.info[step].guard.is_none() {
                    continue;
                }
            }
            Inst::Load(_) | Inst::BraTable { .. } | Inst::Call { .. } | Inst::Bar(_) => {
                return false;
            }
            _ => {}
        }
        if step + 1 < func.code.len() {
            open.push(step + 1);
        }
    }
    true
}

/// Whether a step's results come from memory, or from where this does not look.
fn brings_data(inst: &Inst) -> bool {
    match inst {
        Inst::Load(access) => access.space != Space::Param,
        Inst::Atom(_) | Inst::Call { .. } => true,
        _ => false,
    }
}

/// Whether a step is taken, goes somewhere or touches something as loaded data say.
fn is_led(func: &FuncCode, at: usize, loaded: &[bool]) -> bool {
    let guarded = func.info[at].guard.is_some_and(|guard| {
        let first = usize::from(func.rows32) + usize::from(func.rows64);
        loaded[first + usize::from(guard.row)]
    });
    let wide = |row: Row| row != NO_ROW && loaded[usize::from(func.rows32) + usize::from(row)];
    guarded && !only_ends(func, at)
        || match &func.code[at] {
            Inst::Load(Access { base, .. }) | Inst::Store(Access { base, .. }) => wide(*base),
            Inst::Atom(atom) => wide(atom.base),
            // A callee goes by its arguments, and by what it reads itself.
            Inst::Call { .. } => true,
            Inst::BraTable { .. }
            | Inst::Bar(_)
            | Inst::BarWarp { .. }
            | Inst::Nanosleep { .. }
            | Inst::Shfl(_)
            | Inst::Vote { .. }
            | Inst::Match { .. } => reads_any(func, at, loaded),
            _ => false,
        }
}

fn reads_any(func: &FuncCode, at: usize, loaded: &[bool]) -> bool {
    rows(func, func.info[at].reads).any(|row| loaded[row])
}

fn rows(func: &FuncCode, (from, to): (u32, u32)) -> impl Iterator<Item = usize> {
    let deps = &func.deps[from as usize..to as usize];
    deps.iter().map(|row| *row as usize)
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn follows(body: &str) -> bool {
        let text = format!(
            ".version 7.8\n.target sm_70\n.address_size 64\n\
             .visible .entry k(.param .u64 p, .param .u32 n) {{\n\
             .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n\
             ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n{body}\nret;\n}}\n"
        );
        let module = parse(&text).expect("a module");
        module.kernels[0].properties.follows_data
    }

    #[test]
    fn arguments_and_thread_numbers_may_lead_and_loaded_data_may_be_stored() {
        for body in [
            "",
            "setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; st.global.u32 [%rd1], %r1; DONE:",
            "mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; \
             ld.global.u32 %r3, [%rd3]; add.u32 %r4, %r3, 1; st.global.u32 [%rd3], %r4;",
            // Chosen by data, but stored either way.
            "ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; selp.u32 %r3, 1, 2, %p1; \
             st.global.u32 [%rd1], %r3;",
        ] {
            assert!(!follows(body), "{body}");
        }
    }

    #[test]
    fn an_end_that_only_writes_may_be_taken_or_not() {
        let sum = "AGAIN: ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r3, %r2; \
                   sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN; \
                   setp.eq.u32 %p2, %r3, 7;";
        let end = "red.global.add.u32 [%rd1], 1;";
        assert!(!follows(&format!("{sum} @!%p2 bra DONE; {end} DONE:")));
        assert!(!follows(&format!("{sum} @%p2 {end}")));
        // Not the end: it goes around again, or loads once more, or is long.
        assert!(follows(&format!("{sum} @!%p2 bra AGAIN; {end} DONE:")));
        assert!(follows(&format!(
            "{sum} @!%p2 bra DONE; ld.global.u32 %r4, [%rd1]; {end} DONE:"
        )));
        assert!(follows(&format!(
            "{sum} @!%p2 bra DONE; {} DONE:",
            end.repeat(20)
        )));
        // Where it writes is led by data.
        assert!(follows(&format!(
            "{sum} mul.wide.u32 %rd2, %r3, 4; @!%p2 bra DONE; red.global.add.u32 [%rd2], 1; DONE:"
        )));
    }

    #[test]
    fn a_branch_a_guard_or_an_address_from_memory_follows_data() {
        for body in [
            "ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE; \
             ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1], %r3; DONE:",
            "ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 ld.global.u32 %r3, [%rd1];",
            "ld.global.u64 %rd2, [%rd1]; ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd1], %r2;",
            "ld.global.u32 %r2, [%rd1]; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; \
             st.global.u32 [%rd3], %r1;",
            "atom.global.add.u32 %r2, [%rd1], 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE; \
             ld.global.u32 %r3, [%rd1]; DONE:",
            // Through a row that is only loaded further down, around a loop.
            "AGAIN: setp.eq.u32 %p1, %r3, 5; @%p1 bra DONE; ld.global.u32 %r2, [%rd1]; \
             mov.u32 %r3, %r2; bra AGAIN; DONE:",
        ] {
            assert!(follows(body), "{body}");
        }
    }
}
