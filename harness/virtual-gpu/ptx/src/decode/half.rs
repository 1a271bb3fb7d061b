//! Arithmetic on half precision (PTX ISA, "Half Precision Floating-Point Instructions"), of one
//! number or of a pair in 32 bits. Each number is widened, computed in single precision and rounded
//! once; a fused product in double precision, which holds it.

use super::decoder::Decoder;
use super::dispatch::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{Cvt, Row};
use crate::ops::{FMode, FOp, FUn, Round};
use crate::types::Ty;

/// What is done with the widened sources.
#[derive(Clone, Copy)]
enum Op {
    One(FUn),
    Two(FOp),
    Fused,
}

impl<'a> Decoder<'a, '_> {
    /// Consumes the type of a pair of numbers.
    pub(super) fn pair(mods: &mut Mods<'a>) -> Option<Ty> {
        mods.take_any(&["f16x2", "bf16x2"]).map(|name| match name {
            "f16x2" => Ty::F16,
            _ => Ty::Bf16,
        })
    }

    /// An instruction on numbers of this type, or on `pairs` of them.
    pub(super) fn half(&mut self, mods: &mut Mods<'a>, ty: Ty, pairs: bool) -> Loaded<()> {
        let nan = mods.take("NaN");
        let approximate = mods.take("approx");
        let op = match mods.base {
            "add" => Op::Two(FOp::Add),
            "sub" => Op::Two(FOp::Sub),
            "mul" => Op::Two(FOp::Mul),
            "min" => Op::Two(if nan { FOp::MinNan } else { FOp::Min }),
            "max" => Op::Two(if nan { FOp::MaxNan } else { FOp::Max }),
            _ if nan => return mods.unsupported(),
            "fma" => Op::Fused,
            "neg" => Op::One(FUn::Neg),
            "abs" => Op::One(FUn::Abs),
            "ex2" if approximate => Op::One(FUn::Ex2),
            "tanh" if approximate => Op::One(FUn::Tanh),
            _ => return mods.unsupported(),
        };
        let mode = mods.fmode();
        mods.refuse(mode.round != Round::Nearest || mode.ftz)?;
        let operands = mods.operands();
        let sources = match op {
            Op::One(_) => 1,
            Op::Two(_) => 2,
            Op::Fused => 3,
        };
        let [d, from @ ..] = &operands[..] else { return mods.unsupported() };
        if from.len() != sources {
            return self.fail(format!("`{}` takes {} operands", mods.opcode, sources + 1));
        }
        if !pairs {
            let row = self.half_of(op, (ty, mode.sat), from, None)?;
            return self.move_to(d, Ty::B16, row);
        }
        let word = self.new32()?;
        for shift in [0, 16] {
            let a = self.half_of(op, (ty, mode.sat), from, Some(shift))?;
            self.insert(word, a, shift);
        }
        self.reads32(word);
        self.move_to(d, Ty::B32, word)
    }

    fn insert(&mut self, word: Row, a: Row, shift: u8) {
        self.reads32(word);
        self.writes32(word);
        self.emit(Class::Other, Inst::Insert { d: word, a, ty: Ty::B16, shift });
    }

    fn move_to(&mut self, d: &Operand<'a>, ty: Ty, a: Row) -> Loaded<()> {
        let d = self.write(d, ty)?;
        self.emit_last(Class::Other, Inst::Mov32 { d, a })
    }

    /// The row of one result, read already; of a pair, the number at bit `shift`.
    fn half_of(
        &mut self,
        op: Op,
        (ty, sat): (Ty, bool),
        from: &[Operand<'a>],
        shift: Option<u8>,
    ) -> Loaded<Row> {
        let wide = if matches!(op, Op::Fused) { Ty::F64 } else { Ty::F32 };
        let mut rows = [0; 3];
        for (row, source) in rows.iter_mut().zip(from) {
            let mut a = self.read(source, if shift.is_some() { Ty::B32 } else { Ty::B16 })?;
            if let Some(shift) = shift {
                let d = self.new32()?;
                self.writes32(d);
                self.emit(Class::Other, Inst::Extract { d, a, ty: Ty::B16, shift });
                a = self.reads32(d);
            }
            *row = self.convert((ty, a), wide, false)?;
        }
        let [a, b, c] = rows;
        rows[..from.len()].iter().for_each(|row| {
            self.reads_row(wide, *row);
        });
        let d = self.temp(wide)?;
        self.writes_row(wide, d);
        let mode = FMode { round: Round::Nearest, ftz: false, sat: false };
        let inst = match op {
            Op::One(op) => Inst::FUn32 { op, mode, d, a },
            Op::Two(op) => Inst::F32 { op, mode, d, a, b },
            Op::Fused => Inst::Fma64 { d, a, b, c },
        };
        self.emit(Class::Fp32, inst);
        self.reads_row(wide, d);
        let row = self.convert((wide, d), ty, sat)?;
        Ok(self.reads32(row))
    }

    /// A new row with a converted number. Its source has been read.
    pub(super) fn convert(&mut self, (from, a): (Ty, Row), to: Ty, sat: bool) -> Loaded<Row> {
        let d = self.temp(to)?;
        self.writes_row(to, d);
        let (round, integral, ftz) = (Round::Nearest, false, false);
        self.emit(Class::Convert, Inst::Cvt(Cvt { from, to, round, integral, ftz, sat, d, a }));
        Ok(d)
    }

    /// `cvt.rn.f16x2.f32 d, a, b`: `a` becomes the upper number.
    pub(super) fn cvt_pair(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let from = mods.ty()?;
        let mode = mods.fmode();
        mods.refuse(from != Ty::F32 || mode.round != Round::Nearest || mode.ftz)?;
        let [d, upper, lower] = self.take(mods)?;
        let word = self.new32()?;
        for (source, shift) in [(lower, 0), (upper, 16)] {
            let a = self.read(&source, Ty::F32)?;
            let a = self.convert((Ty::F32, a), ty, mode.sat)?;
            self.reads32(a);
            self.insert(word, a, shift);
        }
        self.reads32(word);
        self.move_to(&d, Ty::B32, word)
    }
}
