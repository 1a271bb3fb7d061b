//! Atomics and reductions.

use super::decoder::Decoder;
use super::location::AccessLocation;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{Atom, NO_ROW};
use crate::ops::AtomOp;
use crate::types::{Space, Ty};

/// The combinations of PTX ISA, "atom", up to 64 bits.
pub(super) fn atom_type_fits(op: AtomOp, ty: Ty, reduction: bool) -> bool {
    match op {
        AtomOp::Add => {
            matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F32 | Ty::F64)
        }
        AtomOp::Min | AtomOp::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
        AtomOp::Inc | AtomOp::Dec => ty == Ty::U32,
        AtomOp::And | AtomOp::Or | AtomOp::Xor => matches!(ty, Ty::B32 | Ty::B64),
        AtomOp::Exch => !reduction && matches!(ty, Ty::B32 | Ty::B64),
        AtomOp::Cas => !reduction && matches!(ty, Ty::B16 | Ty::B32 | Ty::B64),
    }
}

impl<'a> Decoder<'a, '_> {
    pub(crate) fn atom(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        self.hints(mods);
        let space = mods.space();
        let names = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"];
        let op = match mods.take_any(&names) {
            Some("add") => AtomOp::Add,
            Some("min") => AtomOp::Min,
            Some("max") => AtomOp::Max,
            Some("inc") => AtomOp::Inc,
            Some("dec") => AtomOp::Dec,
            Some("and") => AtomOp::And,
            Some("or") => AtomOp::Or,
            Some("xor") => AtomOp::Xor,
            Some("exch") => AtomOp::Exch,
            Some("cas") => AtomOp::Cas,
            _ => return mods.unsupported(),
        };
        let ty = mods.ty()?;
        let reduction = mods.base == "red";
        if !atom_type_fits(op, ty, reduction)
            || !matches!(space, Space::Generic | Space::Global | Space::Shared)
        {
            return mods.unsupported();
        }
        let mut rest = ops.iter();
        let d = if reduction { None } else { rest.next() };
        let (Some(address), Some(b), c, None) =
            (rest.next(), rest.next(), rest.next(), rest.next())
        else {
            return self.fail(format!("`{}` has the wrong number of operands", mods.opcode));
        };
        if c.is_some() != (op == AtomOp::Cas) {
            return self.fail(format!("`{}` has the wrong number of operands", mods.opcode));
        }
        let AccessLocation::Address { space, base, offset } = self.location(address, space)? else {
            return mods.unsupported();
        };
        let b = self.read_relaxed(b, ty)?;
        let c = match c {
            Some(c) => self.read_relaxed(c, ty)?,
            None => NO_ROW,
        };
        self.reads_row(ty, b);
        if base != NO_ROW {
            self.reads64(base);
        }
        let pending = match d {
            Some(d) => Some(self.write_relaxed(d, ty)?),
            None => None,
        };
        let row = pending.map_or(NO_ROW, |pending| pending.row);
        self.emit(Class::Atomic, Inst::Atom(Atom { op, ty, space, d: row, base, offset, b, c }));
        if let Some(pending) = pending {
            self.finish(pending);
        }
        Ok(())
    }
}
