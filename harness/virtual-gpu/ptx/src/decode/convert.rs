//! Conversions between types (PTX ISA, "cvt").

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::Cvt;
use crate::ops::Round;
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    pub(crate) fn cvt(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let (to, from) = (mods.ty()?, mods.ty()?);
        if to == Ty::Pred || from == Ty::Pred || to.bytes() == 1 && from.is_float() {
            return mods.unsupported();
        }
        let integral = mods.take_any(&["rni", "rzi", "rmi", "rpi"]);
        let mut mode = mods.fmode();
        match integral {
            Some("rzi") => mode.round = Round::Zero,
            Some("rmi") => mode.round = Round::Down,
            Some("rpi") => mode.round = Round::Up,
            _ => {}
        }
        if from.is_float() && !to.is_float() && integral.is_none() {
            return self.fail(format!("`{}` needs .rni, .rzi, .rmi or .rpi", mods.opcode));
        }
        if integral.is_some() && !from.is_float() {
            return mods.unsupported();
        }
        let [d, a] = self.take(mods, ops)?;
        let a = self.read_relaxed(&a, from)?;
        let pending = self.write_relaxed(&d, to)?;
        let d = pending.row;
        let class = if from.is_float() || to.is_float() { Class::Convert } else { Class::Int };
        let plain_ints = !from.is_float() && !to.is_float() && !mode.sat;
        let inst = match (from.bytes(), to.bytes()) {
            (4, 8) if plain_ints && from.is_signed() => Inst::WidenS { d, a },
            (4, 8) if plain_ints => Inst::WidenU { d, a, offset: 0 },
            (8, 4) if plain_ints => Inst::Low { d, a },
            (4, 4) if plain_ints => Inst::Mov32 { d, a },
            (8, 8) if plain_ints => Inst::Mov64 { d, a },
            _ => Inst::Cvt(Cvt {
                from,
                to,
                round: mode.round,
                integral: integral.is_some(),
                ftz: mode.ftz,
                sat: mode.sat,
                d,
                a,
            }),
        };
        self.emit(class, inst);
        self.finish(pending);
        Ok(())
    }
}
