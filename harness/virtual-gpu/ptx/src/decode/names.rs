//! Names inside a function: nested scopes of registers, parameters and variables.

use crate::operands::{ParamWords, Row};
use crate::types::Ty;
use std::collections::HashMap;

/// The condition code register: a predicate with a name that no text can contain.
pub(crate) const CARRY: &str = "carry flag";

/// The value of a special register, under such a name too.
pub(crate) const SPECIAL: &str = "special register";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reg {
    R32(Row),
    R64(Row),
    P(Row),
}

/// A name that is not a register.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Var {
    /// Parameter variable of a call or of a device function.
    Param(ParamWords),
    /// Parameter of a kernel: offset in the argument buffer.
    KernelParam(u32),
    /// Offset in the frame's local memory.
    Local(u32),
    /// Offset in the block's shared memory.
    Shared(u32),
    DynamicShared,
}

#[derive(Debug, Default)]
struct Scope<'a> {
    singles: HashMap<&'a str, Ty>,
    ranges: Vec<(&'a str, u64, Ty)>,
    allocated: HashMap<&'a str, (Reg, Ty)>,
    vars: HashMap<&'a str, Var>,
    /// Identity, for labels, which may be used before they are declared.
    id: u32,
}

/// The stack of open scopes.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// Enclosing scope of each scope ever opened.
    pub parents: Vec<Option<u32>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new() -> Self {
        let mut outermost = Scope::default();
        outermost.singles.insert(CARRY, Ty::Pred);
        outermost.singles.insert(SPECIAL, Ty::U32);
        Self { scopes: vec![outermost], parents: vec![None] }
    }

    pub(crate) fn open(&mut self) {
        let id = self.parents.len() as u32;
        self.parents.push(Some(self.scope_id()));
        self.scopes.push(Scope { id, ..Scope::default() });
    }

    pub(crate) fn close(&mut self) {
        // The outermost scope belongs to the function and stays.
        if self.scopes.len() > 1 {
            self.scopes.pop();
        }
    }

    pub(crate) fn scope_id(&self) -> u32 {
        self.scopes.last().map_or(0, |scope| scope.id)
    }

    fn innermost(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Declares one register or `count` numbered ones; false when the name is taken.
    pub(crate) fn declare_reg(&mut self, name: &'a str, count: Option<u64>, ty: Ty) -> bool {
        let scope = self.innermost();
        match count {
            Some(count) => {
                scope.ranges.push((name, count, ty));
                true
            }
            None => scope.singles.insert(name, ty).is_none(),
        }
    }

    /// Declares a variable; false when the name is taken in this scope.
    pub(crate) fn declare_var(&mut self, name: &'a str, var: Var) -> bool {
        self.innermost().vars.insert(name, var).is_none()
    }

    pub(crate) fn var(&self, name: &str) -> Option<Var> {
        self.scopes.iter().rev().find_map(|scope| scope.vars.get(name).copied())
    }

    /// The register called `name`; `allocate` adds a row at its first use.
    pub(crate) fn reg(
        &mut self,
        name: &'a str,
        mut allocate: impl FnMut(Ty) -> Option<Reg>,
    ) -> Option<(Reg, Ty)> {
        for scope in self.scopes.iter_mut().rev() {
            if let Some(found) = scope.allocated.get(name) {
                return Some(*found);
            }
            if let Some(ty) = scope.declared(name) {
                let reg = allocate(ty)?;
                scope.allocated.insert(name, (reg, ty));
                return Some((reg, ty));
            }
        }
        None
    }
}

impl Scope<'_> {
    fn declared(&self, name: &str) -> Option<Ty> {
        if let Some(ty) = self.singles.get(name) {
            return Some(*ty);
        }
        let (prefix, number) = numbered(name)?;
        let range = self.ranges.iter().find(|(p, count, _)| *p == prefix && number < *count);
        range.map(|(_, _, ty)| *ty)
    }
}

/// `%r12` as `%r` and 12. A leading zero makes a different name.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = name.split_at(name.len() - digits);
    if number.len() > 1 && number.starts_with('0') {
        return None;
    }
    Some((prefix, number.parse().ok()?))
}
