//! Warp-wide and block-wide instructions: shuffles, votes, matches, matrix products, barriers.

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{Bar, NO_ROW, Product, Row, Shfl};
use crate::ops::{BarKind, ShflMode, VoteMode};
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    pub(crate) fn warp_wide(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        if mods.base == "activemask" {
            let [d] = self.take(mods, ops)?;
            if mods.ty()? != Ty::B32 {
                return mods.unsupported();
            }
            let d = self.write(&d, Ty::B32)?;
            self.emit(Class::Other, Inst::ActiveMask { d });
            return Ok(());
        }
        // sm_70 removed the forms without `.sync`.
        if !mods.take("sync") {
            return mods.unsupported();
        }
        match mods.base {
            "shfl" => self.shfl(mods, ops),
            "vote" => self.vote(mods, ops),
            _ => self.matching(mods, ops),
        }
    }

    fn shfl(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let mode = match mods.take_any(&["up", "down", "bfly", "idx"]) {
            Some("up") => ShflMode::Up,
            Some("down") => ShflMode::Down,
            Some("bfly") => ShflMode::Bfly,
            Some(_) => ShflMode::Idx,
            None => return mods.unsupported(),
        };
        if mods.ty()? != Ty::B32 {
            return mods.unsupported();
        }
        let [d, a, b, c, members] = self.take(mods, ops)?;
        let (a, b) = (self.read_u32(&a)?, self.read_u32(&b)?);
        let (c, members) = (self.read_u32(&c)?, self.read_u32(&members)?);
        let (d, p) = match d {
            Operand::Pair(d, p) => {
                let d = self.write(&Operand::Name(d, 0), Ty::B32)?;
                (d, self.write_pred(p)?)
            }
            _ => (self.write(&d, Ty::B32)?, NO_ROW),
        };
        self.emit(Class::Other, Inst::Shfl(Shfl { mode, d, p, a, b, c, members }));
        Ok(())
    }

    fn vote(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let mode = match mods.take_any(&["all", "any", "uni", "ballot"]) {
            Some("all") => VoteMode::All,
            Some("any") => VoteMode::Any,
            Some("uni") => VoteMode::Uni,
            Some(_) => VoteMode::Ballot,
            None => return mods.unsupported(),
        };
        let ty = mods.ty()?;
        let [d, p, members] = self.take(mods, ops)?;
        let p = self.read_pred(&p)?;
        let members = self.read_u32(&members)?;
        let d = match (mode, ty) {
            (VoteMode::Ballot, Ty::B32) => self.write(&d, ty)?,
            (VoteMode::All | VoteMode::Any | VoteMode::Uni, Ty::Pred) => self.write_pred_op(&d)?,
            _ => return mods.unsupported(),
        };
        self.emit(Class::Other, Inst::Vote { mode, d, p, members });
        Ok(())
    }

    /// `wmma.mma` of 16 by 16 by 16 with half-precision factors and single-precision sums (PTX ISA,
    /// "Warp-level Matrix Multiply-and-Accumulate Instruction: wmma.mma"). `row` and `col` describe
    /// the layout in memory and have no effect here.
    pub(crate) fn wmma(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let form = mods.take("mma") && mods.take("sync") && mods.take("aligned");
        let layouts = [(); 2].map(|()| mods.take_any(&["row", "col"]).is_some());
        let shape = mods.take("m16n16k16") && mods.ty()? == Ty::F32 && mods.ty()? == Ty::F32;
        if !form || layouts != [true; 2] || !shape {
            return mods.unsupported();
        }
        let [d, a, b, c] = self.take(mods, ops)?;
        let (a, b) = (self.fragment(&a, Ty::B32)?, self.fragment(&b, Ty::B32)?);
        let c = self.fragment(&c, Ty::F32)?;
        let members = self.const32(u32::MAX)?;
        let parts = self.eight(&d)?;
        let mut rows = [NO_ROW; 8];
        for (row, part) in rows.iter_mut().zip(&parts) {
            *row = self.write(part, Ty::F32)?;
        }
        self.out.products.push(Product { d: rows, a, b, c });
        let product = self.out.products.len() as u32 - 1;
        self.emit(Class::Tensor, Inst::Wmma { product, members });
        Ok(())
    }

    fn eight(&self, op: &Operand<'a>) -> Loaded<[Operand<'a>; 8]> {
        let parts = match op {
            Operand::Vector(parts) => <[Operand<'a>; 8]>::try_from(parts.clone()).ok(),
            _ => None,
        };
        match parts {
            Some(parts) => Ok(parts),
            None => self.fail("a fragment is eight registers in braces"),
        }
    }

    fn fragment(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<[Row; 8]> {
        let parts = self.eight(op)?;
        let mut rows = [NO_ROW; 8];
        for (row, part) in rows.iter_mut().zip(&parts) {
            *row = self.read(part, ty)?;
        }
        Ok(rows)
    }

    fn matching(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let all = match mods.take_any(&["all", "any"]) {
            Some("all") => true,
            Some(_) => false,
            None => return mods.unsupported(),
        };
        let ty = mods.ty()?;
        if !matches!(ty, Ty::B32 | Ty::B64) {
            return mods.unsupported();
        }
        let [d, a, members] = self.take(mods, ops)?;
        let a = self.read(&a, ty)?;
        let members = self.read_u32(&members)?;
        let (d, p) = match d {
            Operand::Pair(d, p) if all => {
                let d = self.write(&Operand::Name(d, 0), Ty::B32)?;
                (d, self.write_pred(p)?)
            }
            _ => (self.write(&d, Ty::B32)?, NO_ROW),
        };
        self.emit(Class::Other, Inst::Match { wide: ty.is_wide(), all, d, p, a, members });
        Ok(())
    }

    pub(crate) fn barrier(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        mods.take("cta");
        if mods.take("warp") {
            if !mods.take("sync") {
                return mods.unsupported();
            }
            let [members] = self.take(mods, ops)?;
            let members = self.read_u32(&members)?;
            self.emit(Class::Barrier, Inst::BarWarp { members });
            return Ok(());
        }
        // Threads are counted one by one, so the aligned forms need no special case.
        mods.take("aligned");
        let mut bar = Bar { kind: BarKind::Sync, id: NO_ROW, threads: NO_ROW, d: NO_ROW, p: None };
        let mut rest = ops;
        match mods.take_any(&["sync", "arrive", "red"]) {
            Some("sync") => {}
            Some("arrive") => bar.kind = BarKind::Arrive,
            Some(_) => {
                bar.kind = match mods.take_any(&["popc", "and", "or"]) {
                    Some("popc") => BarKind::Popc,
                    Some("and") => BarKind::And,
                    Some(_) => BarKind::Or,
                    None => return mods.unsupported(),
                };
                let ty = mods.ty()?;
                let ([d, middle @ .., p], true) = (ops, ops.len() >= 3) else {
                    return self.fail(format!("`{}` takes 3 or 4 operands", mods.opcode));
                };
                bar.p = Some(self.read_pred(p)?);
                bar.d = match (bar.kind, ty) {
                    (BarKind::Popc, Ty::U32) => self.write(d, ty)?,
                    (BarKind::And | BarKind::Or, Ty::Pred) => self.write_pred_op(d)?,
                    _ => return mods.unsupported(),
                };
                rest = middle;
            }
            None => return mods.unsupported(),
        }
        let (id, threads) = match rest {
            [id] if bar.kind != BarKind::Arrive => (id, None),
            [id, threads] => (id, Some(threads)),
            _ => {
                return self.fail(format!("`{}` has the wrong number of operands", mods.opcode));
            }
        };
        bar.id = self.read_u32(id)?;
        if let Some(threads) = threads {
            bar.threads = self.read_u32(threads)?;
        }
        self.emit(Class::Barrier, Inst::Bar(bar));
        Ok(())
    }
}
