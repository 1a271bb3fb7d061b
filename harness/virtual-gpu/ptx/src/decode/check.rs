//! Checks over all functions: call signatures, and properties including those of callees.

use crate::code::FuncCode;
use crate::code::Properties;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::operands::{Callee, ParamWords};

/// Arguments and results of direct calls must have the callee's shape.
pub(super) fn check_calls(code: &[FuncCode]) -> Loaded<()> {
    let bytes = |all: &[ParamWords]| all.iter().map(|p| p.bytes).collect::<Vec<_>>();
    for func in code {
        for (inst, info) in func.code.iter().zip(&func.info) {
            let Inst::Call { site } = inst else { continue };
            let site = &func.calls[*site as usize];
            let Callee::Direct(target) = site.callee else {
                continue;
            };
            let callee = &code[target as usize];
            let fits = bytes(&callee.params) == bytes(&site.args)
                && bytes(&callee.returns) == bytes(&site.returns);
            if !fits {
                let message = format!("the call of `{}` does not fit its parameters", callee.name);
                return Err(PtxError::new(info.line, message));
            }
        }
    }
    Ok(())
}

/// Properties including those of all possible callees. An indirect call can reach any function.
pub(super) fn closed_properties(code: &[FuncCode]) -> Vec<Properties> {
    let mut all: Vec<Properties> = code.iter().map(|func| func.properties).collect();
    loop {
        let mut changed = false;
        for (index, func) in code.iter().enumerate() {
            let mut mine = all[index];
            for site in &func.calls {
                match site.callee {
                    Callee::Direct(target) => merge(&mut mine, all[target as usize]),
                    Callee::Indirect(_) => all.iter().for_each(|other| merge(&mut mine, *other)),
                    Callee::Vprintf | Callee::AssertFail => {}
                }
            }
            changed |= mine != all[index];
            all[index] = mine;
        }
        if !changed {
            return all;
        }
    }
}

pub(super) fn merge(mine: &mut Properties, other: Properties) {
    mine.reads_globaltimer |= other.reads_globaltimer;
    mine.calls_printf |= other.calls_printf;
    mine.data_dependent |= other.data_dependent;
}
