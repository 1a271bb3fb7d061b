//! Data dependence: whether branches or addresses of a function depend on loaded data.
//!
//! A kernel that only moves data, or computes on it, costs the same for all data. One that branches
//! on loaded data, or uses it as an address, does not. The analysis is conservative: it ignores the
//! order of steps, and treats values from shared memory, calls and other lanes as loaded. One
//! exception: a data-dependent branch to an end of the kernel that only writes. Compilers cannot
//! drop loads before such an end, and it costs at most one access per thread.

use crate::code::FuncCode;
use crate::inst::Inst;
use crate::operands::{Access, NO_ROW, Row};
use crate::types::Space;

/// Whether branches or addresses of the function may depend on loaded data.
pub(crate) fn data_dependent(func: &FuncCode) -> bool {
    let mut loaded = vec![false; func.flat_rows()];
    loop {
        let mut changed = false;
        for at in 0..func.code.len() {
            if !loads_data(&func.code[at]) && !reads_any(func, at, &loaded) {
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
    (0..func.code.len()).any(|at| depends_on_data(func, at, &loaded))
}

/// Longest end of a kernel, in steps, that a data-dependent branch may skip.
const END_STEPS: usize = 16;

/// Whether only a few writes follow a step, on either side of its branch.
fn only_writes_follow(func: &FuncCode, at: usize) -> bool {
    let mut open = vec![at];
    let mut visited = 0;
    while let Some(step) = open.pop() {
        visited += 1;
        if visited > END_STEPS {
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
            Inst::Load(_)
            | Inst::Fetch(_)
            | Inst::BraTable { .. }
            | Inst::Call { .. }
            | Inst::Bar(_) => return false,
            _ => {}
        }
        if step + 1 < func.code.len() {
            open.push(step + 1);
        }
    }
    true
}

/// Whether a step's results come from memory, or from a call, which is not followed.
fn loads_data(inst: &Inst) -> bool {
    match inst {
        Inst::Load(access) => access.space != Space::Param,
        Inst::Atom(_) | Inst::Fetch(_) | Inst::Call { .. } => true,
        _ => false,
    }
}

/// Whether the guard, target or address of a step depends on loaded data.
fn depends_on_data(func: &FuncCode, at: usize, loaded: &[bool]) -> bool {
    let guarded = func.info[at].guard.is_some_and(|guard| {
        let first = usize::from(func.rows32) + usize::from(func.rows64);
        loaded[first + usize::from(guard.row)]
    });
    let wide = |row: Row| row != NO_ROW && loaded[usize::from(func.rows32) + usize::from(row)];
    guarded && !only_writes_follow(func, at)
        || match &func.code[at] {
            Inst::Load(Access { base, .. }) | Inst::Store(Access { base, .. }) => wide(*base),
            Inst::Atom(atom) => wide(atom.base),
            // A callee may depend on its arguments, and on data that it loads.
            Inst::Call { .. } => true,
            Inst::BraTable { .. }
            | Inst::Fetch(_)
            | Inst::Bar(_)
            | Inst::BarWarp { .. }
            | Inst::Nanosleep(_)
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

    fn dependent(body: &str) -> bool {
        let text = format!(
            ".version 7.8\n.target sm_70\n.address_size 64\n\
             .visible .entry k(.param .u64 p, .param .u32 n) {{\n\
             .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n\
             ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n{body}\nret;\n}}\n"
        );
        let module = parse(&text).expect("a module");
        module.kernels[0].properties.data_dependent
    }

    #[test]
    fn branches_on_arguments_and_stores_of_loaded_data_are_independent() {
        for body in [
            "",
            "setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; st.global.u32 [%rd1], %r1; DONE:",
            "mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; \
             ld.global.u32 %r3, [%rd3]; add.u32 %r4, %r3, 1; st.global.u32 [%rd3], %r4;",
            // Chosen by data, but stored either way.
            "ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; selp.u32 %r3, 1, 2, %p1; \
             st.global.u32 [%rd1], %r3;",
        ] {
            assert!(!dependent(body), "{body}");
        }
    }

    #[test]
    fn a_branch_to_an_end_that_only_writes_is_independent() {
        let sum = "AGAIN: ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r3, %r2; \
                   sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN; \
                   setp.eq.u32 %p2, %r3, 7;";
        let end = "red.global.add.u32 [%rd1], 1;";
        assert!(!dependent(&format!("{sum} @!%p2 bra DONE; {end} DONE:")));
        assert!(!dependent(&format!("{sum} @%p2 {end}")));
        // Not an end: it loops, or loads, or is long.
        assert!(dependent(&format!("{sum} @!%p2 bra AGAIN; {end} DONE:")));
        assert!(dependent(&format!(
            "{sum} @!%p2 bra DONE; ld.global.u32 %r4, [%rd1]; {end} DONE:"
        )));
        assert!(dependent(&format!("{sum} @!%p2 bra DONE; {} DONE:", end.repeat(20))));
        // The address depends on data.
        assert!(dependent(&format!(
            "{sum} mul.wide.u32 %rd2, %r3, 4; @!%p2 bra DONE; red.global.add.u32 [%rd2], 1; DONE:"
        )));
    }

    #[test]
    fn a_branch_a_guard_or_an_address_from_memory_is_dependent() {
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
            assert!(dependent(body), "{body}");
        }
    }
}
