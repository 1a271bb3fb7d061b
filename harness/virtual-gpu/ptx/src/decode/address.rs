//! Addresses of variables and functions, and conversions between address spaces.

use super::decoder::Decoder;
use super::mods::Mods;
use super::names::{Reg, Var};
use crate::ast::Operand;
use crate::code::Const64;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::Row;
use crate::ops::IntOp;
use crate::types::window;
use crate::types::{Space, Ty};

impl<'a> Decoder<'a, '_> {
    /// A 64-bit row, recorded as read, that holds the address of a variable or function.
    pub(crate) fn address_of(&mut self, name: &'a str, offset: i64) -> Loaded<Row> {
        let var = self.names.var(name).or_else(|| self.globals.shared.get(name).copied());
        let row = match var {
            Some(Var::Shared(at)) => {
                self.const64(Const64::Bits(u64::from(at).wrapping_add_signed(offset)))?
            }
            Some(Var::KernelParam(at)) => {
                self.const64(Const64::Bits(u64::from(at).wrapping_add_signed(offset)))?
            }
            Some(Var::Local(at)) => {
                let at = i64::from(at).checked_add(offset).and_then(|at| u32::try_from(at).ok());
                let Some(at) = at else {
                    return self.fail(format!("offset {offset} leaves local variable `{name}`"));
                };
                let d = self.new64()?;
                self.writes64(d);
                self.emit(Class::Other, Inst::LocalAddr { d, offset: at });
                d
            }
            Some(Var::DynamicShared) => {
                let d = self.new64()?;
                self.writes64(d);
                self.emit(Class::Other, Inst::DynSharedAddr { d });
                if offset == 0 {
                    d
                } else {
                    self.reads64(d);
                    let b = self.const64(Const64::Bits(offset as u64))?;
                    let sum = self.new64()?;
                    self.writes64(sum);
                    self.emit(Class::Other, Inst::Int64 { op: IntOp::Add, d: sum, a: d, b });
                    sum
                }
            }
            Some(Var::Param(_)) => {
                return self.fail(format!("the address of parameter `{name}` cannot be taken"));
            }
            None => {
                if let Some(symbol) = self.globals.symbols.get(name) {
                    self.const64(Const64::Symbol(*symbol, offset))?
                } else if let Some(function) = self.globals.functions.get(name) {
                    if offset != 0 {
                        return self.fail(format!("function `{name}` takes no offset"));
                    }
                    self.const64(Const64::Function(*function))?
                } else {
                    return self.fail(format!("`{name}` is not declared"));
                }
            }
        };
        Ok(self.reads64(row))
    }

    /// `cvta`: between generic addresses and those of a space.
    pub(crate) fn cvta(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let to = mods.take("to");
        let space = mods.space();
        if !mods.take("u64") {
            return mods.unsupported();
        }
        let base = match space {
            Space::Shared => window::SHARED_BASE,
            Space::Local => window::LOCAL_BASE,
            Space::Global | Space::Const => 0,
            _ => return mods.unsupported(),
        };
        let [d, a] = self.take(mods, ops)?;
        let a = match &a {
            Operand::Name(name, offset) if self.register(name)?.is_none() => {
                self.address_of(name, *offset)?
            }
            _ => self.read(&a, Ty::U64)?,
        };
        let d = self.write(&d, Ty::U64)?;
        if base == 0 {
            self.emit(Class::Int, Inst::Mov64 { d, a });
            return Ok(());
        }
        let b = self.const64(Const64::Bits(base))?;
        let op = if to { IntOp::Sub } else { IntOp::Add };
        self.emit(Class::Int, Inst::Int64 { op, d, a, b });
        Ok(())
    }

    pub(crate) fn isspacep(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let space = mods.space();
        if matches!(space, Space::Generic | Space::Param) {
            return mods.unsupported();
        }
        let [d, a] = self.take(mods, ops)?;
        let a = self.read(&a, Ty::U64)?;
        let d = self.write_pred_op(&d)?;
        self.emit(Class::Int, Inst::IsSpace { space, d, a });
        Ok(())
    }

    /// Whether `name` is a 64-bit register.
    pub(crate) fn is_wide_register(&mut self, name: &'a str) -> Loaded<bool> {
        Ok(matches!(self.need_register(name)?.0, Reg::R64(_)))
    }
}
