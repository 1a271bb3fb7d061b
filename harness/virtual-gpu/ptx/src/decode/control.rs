//! Branches, calls, returns, and instructions without effect here.

use super::decoder::Decoder;
use super::mods::Mods;
use super::names::{Reg, Var};
use crate::ast::{Operand, RawVar, Stmt};
use crate::code::FuncCode;
use crate::counts::Class;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::operands::{CallSite, Callee, ParamWords};
use crate::types::{MAX_LOCAL_BYTES, Space, Ty};

impl<'a> Decoder<'a, '_> {
    pub(crate) fn control(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        // `.uni` asserts that the branch does not diverge; divergence is handled either way.
        mods.take("uni");
        match mods.base {
            "bra" => {
                let [Operand::Name(label, 0)] = self.take(mods, ops)? else {
                    return self.fail("`bra` takes a label");
                };
                self.branches.push((self.here(), self.names.scope_id(), label, mods.line));
                self.emit(Class::Control, Inst::Bra { target: 0 });
                Ok(())
            }
            "brx" => {
                if !mods.take("idx") {
                    return mods.unsupported();
                }
                let [index, Operand::Name(table, 0)] = self.take(mods, ops)? else {
                    return self.fail("`brx.idx` takes an index and a table of targets");
                };
                let index = self.read_u32(&index)?;
                self.table_uses.push((self.here(), table, mods.line));
                self.emit(Class::Control, Inst::BraTable { index, table: 0 });
                Ok(())
            }
            "call" => self.call(mods, ops),
            "nanosleep" => {
                if !mods.take("u32") {
                    return mods.unsupported();
                }
                let [a] = self.take(mods, ops)?;
                let a = self.read_u32(&a)?;
                self.emit(Class::Other, Inst::Nanosleep(a));
                Ok(())
            }
            base => {
                let [] = self.take(mods, ops)?;
                let inst = match base {
                    "ret" => Inst::Ret,
                    "exit" => Inst::Exit,
                    "trap" => Inst::Trap,
                    _ => Inst::Brkpt,
                };
                self.emit(Class::Control, inst);
                Ok(())
            }
        }
    }

    fn param_words(&self, names: &[&'a str]) -> Loaded<Vec<ParamWords>> {
        let mut all = Vec::new();
        for name in names {
            match self.names.var(name) {
                Some(Var::Param(words)) => all.push(words),
                _ => return self.fail(format!("argument `{name}` is not a .param variable")),
            }
        }
        Ok(all)
    }

    fn call(&mut self, mods: &Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let (returns, target, args, prototype) = match ops {
            [Operand::List(returns), Operand::Name(target, 0), Operand::List(args), rest @ ..] => {
                (returns.as_slice(), *target, args.as_slice(), rest)
            }
            [Operand::Name(target, 0), Operand::List(args), rest @ ..] => {
                (&[][..], *target, args.as_slice(), rest)
            }
            [Operand::List(returns), Operand::Name(target, 0)] => {
                (returns.as_slice(), *target, &[][..], &[][..])
            }
            [Operand::Name(target, 0)] => (&[][..], *target, &[][..], &[][..]),
            _ => return self.fail("the accepted form is `call (returns), target, (arguments)`"),
        };
        if prototype.len() > 1 {
            return mods.unsupported();
        }
        let (returns, args) = (self.param_words(returns)?, self.param_words(args)?);
        let callee = match self.register(target)? {
            Some((Reg::R64(row), _)) => Callee::Indirect(self.reads64(row)),
            Some(_) => return self.fail("a function pointer must be a 64-bit register"),
            None => self.callee(target, &returns, &args)?,
        };
        for words in &args {
            for word in 0..words.words() {
                self.reads32(words.row + word);
            }
        }
        for words in &returns {
            for word in 0..words.words() {
                self.writes32(words.row + word);
            }
        }
        if callee == Callee::Vprintf {
            self.out.properties.calls_printf = true;
        }
        let site = self.out.calls.len() as u32;
        self.out.calls.push(CallSite { callee, args, returns });
        self.emit(Class::Control, Inst::Call { site });
        Ok(())
    }

    fn callee(&self, name: &str, returns: &[ParamWords], args: &[ParamWords]) -> Loaded<Callee> {
        let bytes = |all: &[ParamWords]| all.iter().map(|p| p.bytes).collect::<Vec<_>>();
        if let Some(function) = self.globals.functions.get(name) {
            // The argument shapes are compared once all functions are decoded.
            return Ok(Callee::Direct(*function));
        }
        match (name, bytes(args).as_slice(), bytes(returns).as_slice()) {
            ("vprintf", [8, 8], [4]) => Ok(Callee::Vprintf),
            ("__assertfail", [8, 8, 4, 8, 8], []) => Ok(Callee::AssertFail),
            _ => self.fail(format!(
                "function `{name}` has no body; only vprintf and __assertfail are built in"
            )),
        }
    }

    /// Fences and prefetches: decoded, counted, without effect.
    pub(crate) fn no_effect(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let fence = matches!(mods.base, "membar" | "fence");
        let known: &[&'static str] = if fence {
            &["cta", "gl", "sys", "gpu", "cluster", "sc", "acq_rel"]
        } else {
            &["global", "local", "L1", "L2", "L2::evict_last", "L2::evict_normal"]
        };
        while mods.take_any(known).is_some() {}
        match (fence, mods.base, ops) {
            (true, _, []) => {}
            (false, "prefetch" | "prefetchu", [Operand::Memory(base, _)]) => {
                if let Some(name) = base
                    && self.register(name)?.is_some()
                {
                    self.read(&Operand::Name(name, 0), Ty::U64)?;
                }
            }
            _ => return mods.unsupported(),
        }
        self.emit(Class::Other, Inst::Nop);
        Ok(())
    }

    /// Decodes a body and resolves its labels.
    pub(crate) fn body(mut self, stmts: &[Stmt<'a>], end_line: u32) -> Loaded<FuncCode> {
        for stmt in stmts {
            self.statement(stmt)?;
        }
        // The end of a body returns, like `ret`.
        self.set_line(end_line);
        self.end_of_body();
        for (at, scope, label, line) in std::mem::take(&mut self.branches) {
            let target = self.label(scope, label, line)?;
            self.out.code[at as usize] = Inst::Bra { target };
        }
        for (at, name, line) in std::mem::take(&mut self.table_uses) {
            let Some((scope, labels)) = self.tables.get(name).cloned() else {
                return Err(PtxError::new(line, format!("`{name}` is not a table of targets")));
            };
            let mut targets = Vec::new();
            for label in labels {
                targets.push(self.label(scope, label, line)?);
            }
            if let Inst::BraTable { table, .. } = &mut self.out.code[at as usize] {
                *table = self.out.tables.len() as u32;
            }
            self.out.tables.push(targets);
        }
        self.flatten_rows();
        Ok(self.out)
    }

    fn label(&self, scope: u32, label: &'a str, line: u32) -> Loaded<u32> {
        let mut at = Some(scope);
        while let Some(id) = at {
            if let Some(target) = self.labels.get(&(id, label)) {
                return Ok(*target);
            }
            at = self.names.parents.get(id as usize).copied().flatten();
        }
        Err(PtxError::new(line, format!("label `{label}` is not declared")))
    }

    fn statement(&mut self, stmt: &Stmt<'a>) -> Loaded<()> {
        match stmt {
            Stmt::Open => self.names.open(),
            Stmt::Close => self.names.close(),
            Stmt::Inst(raw) => return self.instruction(raw),
            Stmt::Targets(name, labels) => {
                self.tables.insert(name, (self.names.scope_id(), labels.clone()));
            }
            Stmt::Label(line, name) => {
                let key = (self.names.scope_id(), *name);
                if self.labels.insert(key, self.here()).is_some() {
                    return Err(PtxError::new(*line, format!("label `{name}` is declared twice")));
                }
            }
            Stmt::Reg(line, ty, names) => {
                for (name, count) in names {
                    if !self.names.declare_reg(name, *count, *ty) {
                        let message = format!("register `{name}` is declared twice");
                        return Err(PtxError::new(*line, message));
                    }
                }
            }
            Stmt::Var(var) => return self.variable(var),
        }
        Ok(())
    }

    /// A variable of a body. Shared ones already have addresses; the others get them here.
    fn variable(&mut self, raw: &RawVar<'a>) -> Loaded<()> {
        self.set_line(raw.line);
        if raw.space == Space::Shared {
            return Ok(());
        }
        let bytes = raw.elements.and_then(|n| n.checked_mul(u64::from(raw.ty.bytes())));
        let Some(bytes) = bytes.filter(|bytes| *bytes <= u64::from(MAX_LOCAL_BYTES)) else {
            return self.fail(format!("`{}` exceeds {MAX_LOCAL_BYTES} bytes", raw.name));
        };
        let var = match raw.space {
            Space::Param => Var::Param(self.new_param(bytes)?),
            Space::Local => {
                let at = self.out.local_bytes.next_multiple_of(raw.align);
                let end = u64::from(at) + bytes;
                if end > u64::from(MAX_LOCAL_BYTES) {
                    return self.fail(format!("local memory exceeds {MAX_LOCAL_BYTES} bytes"));
                }
                self.out.local_bytes = end as u32;
                Var::Local(at)
            }
            _ => return self.fail("only .reg, .local, .shared and .param are declared in a body"),
        };
        if !raw.init.is_empty() {
            return self.fail(format!("`{}` cannot have an initial value", raw.name));
        }
        if !self.names.declare_var(raw.name, var) {
            return self.fail(format!("`{}` is declared twice", raw.name));
        }
        Ok(())
    }
}
