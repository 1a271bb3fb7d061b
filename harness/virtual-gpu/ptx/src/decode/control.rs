//! Branches, calls, returns, what lanes and warps do together, and instructions without effect
//! here.

use super::decoder::Decoder;
use super::dispatch::Mods;
use super::names::{Reg, Var};
use crate::ast::{Operand, RawVar, Stmt};
use crate::code::FuncCode;
use crate::counts::Class;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::operands::{Bar, CallSite, Callee, NO_ROW, ParamWords, Product, Row, Shfl};
use crate::ops::{BarKind, ShflMode, VoteMode};
use crate::types::{MAX_LOCAL_BYTES, Space, Ty};

impl<'a> Decoder<'a, '_> {
    pub(crate) fn control(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        // `.uni` asserts that the branch does not diverge; divergence is handled either way.
        mods.take("uni");
        match mods.base {
            "bra" => {
                let [Operand::Name(label, 0)] = self.take(mods)? else {
                    return self.fail("`bra` takes a label");
                };
                self.branches.push((self.here(), self.names.scope_id(), label, mods.line));
                self.emit_last(Class::Control, Inst::Bra { target: 0 })
            }
            "brx" => {
                if !mods.take("idx") {
                    return mods.unsupported();
                }
                let [index, Operand::Name(table, 0)] = self.take(mods)? else {
                    return self.fail("`brx.idx` takes an index and a table of targets");
                };
                let index = self.read_u32(&index)?;
                self.table_uses.push((self.here(), table, mods.line));
                self.emit_last(Class::Control, Inst::BraTable { index, table: 0 })
            }
            "call" => self.call(mods),
            "nanosleep" => {
                if !mods.take("u32") {
                    return mods.unsupported();
                }
                let [a] = self.take(mods)?;
                let a = self.read_u32(&a)?;
                self.emit_last(Class::Other, Inst::Nanosleep(a))
            }
            base => {
                let [] = self.take(mods)?;
                let inst = match base {
                    "ret" => Inst::Ret,
                    "exit" => Inst::Exit,
                    "trap" => Inst::Trap,
                    _ => Inst::Brkpt,
                };
                self.emit_last(Class::Control, inst)
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

    fn call(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let ops = mods.operands();
        let (returns, target, args, prototype) = match &ops[..] {
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
        mods.refuse(prototype.len() > 1)?;
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
        self.emit_last(Class::Control, Inst::Call { site })
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
    pub(crate) fn no_effect(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let fence = matches!(mods.base, "membar" | "fence");
        let known: &[&'static str] = if fence {
            &["cta", "gl", "sys", "gpu", "cluster", "sc", "acq_rel"]
        } else {
            &["global", "local", "L1", "L2", "L2::evict_last", "L2::evict_normal"]
        };
        while mods.take_any(known).is_some() {}
        match (fence, mods.base, &mods.operands()[..]) {
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
        self.emit_last(Class::Other, Inst::Nop)
    }

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

    pub(crate) fn warp_wide(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        if mods.base == "activemask" {
            let [d] = self.take(mods)?;
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
            "shfl" => self.shfl(mods),
            "vote" => self.vote(mods),
            _ => self.matching(mods),
        }
    }

    fn shfl(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let mode = mods.need(ShflMode::parse)?;
        if mods.ty()? != Ty::B32 {
            return mods.unsupported();
        }
        let [d, a, b, c, members] = self.take(mods)?;
        let (a, b) = (self.read_u32(&a)?, self.read_u32(&b)?);
        let (c, members) = (self.read_u32(&c)?, self.read_u32(&members)?);
        let (d, p) = match d {
            Operand::Pair(d, p) => {
                let d = self.write(&Operand::Name(d, 0), Ty::B32)?;
                (d, self.write_pred(p)?)
            }
            _ => (self.write(&d, Ty::B32)?, NO_ROW),
        };
        self.emit_last(Class::Other, Inst::Shfl(Shfl { mode, d, p, a, b, c, members }))
    }

    fn vote(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let mode = mods.need(VoteMode::parse)?;
        let ty = mods.ty()?;
        let [d, p, members] = self.take(mods)?;
        let p = self.read_pred(&p)?;
        let members = self.read_u32(&members)?;
        let d = match (mode, ty) {
            (VoteMode::Ballot, Ty::B32) => self.write(&d, ty)?,
            (VoteMode::All | VoteMode::Any | VoteMode::Uni, Ty::Pred) => self.write_pred_op(&d)?,
            _ => return mods.unsupported(),
        };
        self.emit_last(Class::Other, Inst::Vote { mode, d, p, members })
    }

    /// `wmma.mma` of 16 by 16 by 16 with half-precision factors and single-precision sums (PTX ISA,
    /// "Warp-level Matrix Multiply-and-Accumulate Instruction: wmma.mma"). `row` and `col` describe
    /// the layout in memory and have no effect here.
    pub(crate) fn wmma(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let form = mods.take("mma") && mods.take("sync") && mods.take("aligned");
        let layouts = [(); 2].map(|()| mods.take_any(&["row", "col"]).is_some());
        let shape = mods.take("m16n16k16") && mods.ty()? == Ty::F32 && mods.ty()? == Ty::F32;
        mods.refuse(!form || layouts != [true; 2] || !shape)?;
        let [d, a, b, c] = self.take(mods)?;
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
        self.emit_last(Class::Tensor, Inst::Wmma { product, members })
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

    fn matching(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let all = match mods.take_any(&["all", "any"]) {
            Some("all") => true,
            Some(_) => false,
            None => return mods.unsupported(),
        };
        let ty = mods.ty()?;
        mods.refuse(!matches!(ty, Ty::B32 | Ty::B64))?;
        let [d, a, members] = self.take(mods)?;
        let a = self.read(&a, ty)?;
        let members = self.read_u32(&members)?;
        let (d, p) = match d {
            Operand::Pair(d, p) if all => {
                let d = self.write(&Operand::Name(d, 0), Ty::B32)?;
                (d, self.write_pred(p)?)
            }
            _ => (self.write(&d, Ty::B32)?, NO_ROW),
        };
        self.emit_last(Class::Other, Inst::Match { wide: ty.is_wide(), all, d, p, a, members })
    }

    pub(crate) fn barrier(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        mods.take("cta");
        if mods.take("warp") {
            if !mods.take("sync") {
                return mods.unsupported();
            }
            let [members] = self.take(mods)?;
            let members = self.read_u32(&members)?;
            self.emit(Class::Barrier, Inst::BarWarp { members });
            return Ok(());
        }
        // Threads are counted one by one, so the aligned forms need no special case.
        mods.take("aligned");
        let mut bar = Bar { kind: BarKind::Sync, id: NO_ROW, threads: NO_ROW, d: NO_ROW, p: None };
        let ops = mods.operands();
        let mut rest = &ops[..];
        match mods.take_any(&["sync", "arrive", "red"]) {
            Some("sync") => {}
            Some("arrive") => bar.kind = BarKind::Arrive,
            Some(_) => {
                bar.kind = mods.need(BarKind::parse)?;
                let ty = mods.ty()?;
                let ([d, middle @ .., p], true) = (&ops[..], ops.len() >= 3) else {
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
            _ => return self.fail(format!("`{}` has the wrong number of operands", mods.opcode)),
        };
        bar.id = self.read_u32(id)?;
        if let Some(threads) = threads {
            bar.threads = self.read_u32(threads)?;
        }
        self.emit_last(Class::Barrier, Inst::Bar(bar))
    }
}
