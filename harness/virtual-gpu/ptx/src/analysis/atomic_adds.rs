//! Whether the only effect of a kernel on device memory is to add integers to words.
//!
//! Such a kernel adds the same amounts in every identical launch, whatever the words hold.

use crate::code::FuncCode;
use crate::inst::Inst;
use crate::operands::{Access, NO_ROW};
use crate::ops::AtomOp;
use crate::types::{Space, Ty};

/// Size of the words to which the function adds integers, if all have one size and it accesses
/// device memory in no other way. Conservative: a generic access counts as device memory.
pub(crate) fn atomic_add_bytes(func: &FuncCode) -> Option<u64> {
    let mut bytes = None;
    for inst in &func.code {
        match inst {
            Inst::Load(Access { space, .. }) | Inst::Store(Access { space, .. }) => match space {
                Space::Param | Space::Shared | Space::Local => {}
                Space::Generic | Space::Global | Space::Const => return None,
            },
            Inst::Atom(atom) if atom.space == Space::Shared => {}
            Inst::Atom(atom) => {
                let whole = matches!(atom.ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64);
                let forgotten = atom.d == NO_ROW || !is_read(func, atom.d, atom.ty.is_wide());
                let adds = atom.space == Space::Global && atom.op == AtomOp::Add;
                let alike = bytes.is_none_or(|bytes| bytes == atom.ty.bytes());
                if !(whole && forgotten && adds && alike) {
                    return None;
                }
                bytes = Some(atom.ty.bytes());
            }
            Inst::Call { .. } => return None,
            _ => {}
        }
    }
    bytes.map(u64::from)
}

/// Whether any step reads a row of the 32-bit or the 64-bit bank.
fn is_read(func: &FuncCode, row: u16, wide: bool) -> bool {
    let first = if wide { u32::from(func.rows32) } else { 0 };
    let flat = first + u32::from(row);
    func.info.iter().any(|info| {
        let (from, to) = info.reads;
        func.deps[from as usize..to as usize].contains(&flat)
    })
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn adds(body: &str) -> Option<u64> {
        let text = format!(
            ".version 7.8\n.target sm_70\n.address_size 64\n\
             .visible .entry k(.param .u64 p, .param .u32 n) {{\n\
             .reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>;\n\
             .shared .align 4 .b8 own[64];\n\
             ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n{body}\nret;\n}}\n"
        );
        let module = parse(&text).expect("a module");
        module.kernels[0].properties.atomic_add_bytes
    }

    #[test]
    fn only_kernels_that_do_nothing_but_add_qualify() {
        let add = "atom.global.add.u32 %r2, [%rd1], 1;";
        assert_eq!(adds(add), Some(4));
        assert_eq!(adds("red.global.add.s32 [%rd1], %r1;"), Some(4));
        assert_eq!(adds("red.global.add.u64 [%rd1], %rd1;"), Some(8));
        let own = "st.shared.u32 [own], %r1; ld.shared.u32 %r3, [own]; \
                   atom.shared.max.u32 %r4, [own], %r3;";
        assert_eq!(adds(&format!("{own} {add}")), Some(4));
        assert_eq!(adds(&format!("setp.ne.u32 %p1, %r1, 0; @%p1 {add}")), Some(4));
        for more in [
            "",
            // The old value is overwritten, or decides the new one.
            "atom.global.exch.b32 %r2, [%rd1], 1;",
            "atom.global.max.u32 %r2, [%rd1], 1;",
            "atom.global.cas.b32 %r2, [%rd1], 0, 1;",
            "atom.global.add.u32 %r2, [%rd1], 1; red.global.add.u32 [%rd1], %r2;",
            "atom.global.add.u32 %r2, [%rd1], 1; setp.eq.u32 %p1, %r2, 0; \
             @%p1 red.global.add.u32 [%rd1], 1;",
            "ld.global.u32 %r2, [%rd1]; red.global.add.u32 [%rd1], %r2;",
            "ld.u32 %r2, [%rd1]; red.global.add.u32 [%rd1], %r2;",
            "st.global.u32 [%rd1], %r1; red.global.add.u32 [%rd1], 1;",
            // The order of additions decides their sum, or their words overlap.
            "red.global.add.f32 [%rd1], %f1;",
            "red.global.add.u32 [%rd1], 1; red.global.add.u64 [%rd1], 1;",
            // The space is known at run time only.
            "red.add.u32 [%rd1], 1;",
        ] {
            assert_eq!(adds(more), None, "{more}");
        }
    }
}
