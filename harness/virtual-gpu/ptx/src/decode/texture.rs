//! Fetches from textures of one and two dimensions (PTX ISA, "Texture Instructions: tex").

use super::decoder::Decoder;
use super::dispatch::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{Fetch, NO_ROW};
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    pub(super) fn fetch(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let dimensions = match mods.take_any(&["1d", "2d"]) {
            Some("1d") => 1,
            Some(_) => 2,
            None => return mods.unsupported(),
        };
        let four = mods.take("v4");
        let (ty, at) = (mods.ty()?, mods.ty()?);
        let known = matches!(ty, Ty::F32 | Ty::S32 | Ty::U32) && matches!(at, Ty::F32 | Ty::S32);
        mods.refuse(!four || !known)?;
        let [d, source] = self.take(mods)?;
        let (Operand::Vector(parts), Operand::Texel(object, position)) = (&d, &source) else {
            return self.fail("`tex` takes four registers and `[object, {coordinates}]`");
        };
        // A vector of three has one more for alignment, as one of two may have.
        if parts.len() != 4 || position.len() < dimensions {
            return self.fail("`tex` takes four registers, and a coordinate for each dimension");
        }
        let object = self.read(&Operand::Name(object, 0), Ty::U64)?;
        let mut rows = [NO_ROW; 2];
        for (row, one) in rows.iter_mut().zip(&position[..dimensions]) {
            *row = self.read(one, at)?;
        }
        let mut to = [NO_ROW; 4];
        for (row, one) in to.iter_mut().zip(parts) {
            *row = self.write(one, ty)?;
        }
        let fetch = Fetch { d: to, object, at: rows, by_float: at == Ty::F32 };
        self.emit_last(Class::LoadGlobal, Inst::Fetch(fetch))
    }
}
