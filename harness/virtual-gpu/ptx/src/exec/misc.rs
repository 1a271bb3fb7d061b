//! Instructions that are neither arithmetic nor memory nor control.

use super::address::lanes;
use super::machine::Machine;
use super::tensor;
use super::warp::Warp;
use super::warp_ops;
use crate::fault::FaultKind;
use crate::inst::Inst;
use crate::ops::Special;

impl Machine<'_, '_, '_> {
    pub(super) fn other(
        &mut self,
        warp: &mut Warp,
        frame_at: usize,
        inst: &Inst,
        active: u32,
    ) -> Result<(), FaultKind> {
        match *inst {
            Inst::Trap => return Err(FaultKind::Trap),
            Inst::Brkpt => return Err(FaultKind::Breakpoint),
            Inst::Special32 { d, which } => {
                let values = self.special32(warp, which);
                warp.frames[frame_at].set32(d, active, &values);
            }
            Inst::Special64 { d, which } => {
                let value = match which {
                    Special::Globaltimer => self.globaltimer(warp),
                    Special::Clock64 => self.clock(warp),
                    _ => 0, // `%gridid` numbers launches of a context; one launch is all there is.
                };
                warp.frames[frame_at].set64(d, active, &[value; 32]);
            }
            Inst::LocalAddr { d, offset } => {
                let frame = &mut warp.frames[frame_at];
                let addr = u64::from(frame.local_base) + u64::from(offset);
                frame.set64(d, active, &[addr; 32]);
            }
            Inst::DynSharedAddr { d } => {
                let addr = u64::from(self.block.dynamic_shared_at);
                warp.frames[frame_at].set64(d, active, &[addr; 32]);
            }
            Inst::IsSpace { space, d, a } => {
                let frame = &mut warp.frames[frame_at];
                let addresses = frame.r64[usize::from(a)];
                let mut mask = 0;
                for (lane, addr) in addresses.into_iter().enumerate() {
                    mask |= u32::from(super::special::is_in(space, addr)) << lane;
                }
                frame.set_pred(d, active, mask);
            }
            Inst::ActiveMask { d } => warp.frames[frame_at].set32(d, active, &[active; 32]),
            Inst::Nanosleep(a) => {
                let requested = warp.frames[frame_at].r32[usize::from(a)];
                let max = lanes(active).map(|lane| requested[lane]).max();
                // PTX ISA, "nanosleep": at most 1 ms.
                let ns = u64::from(max.unwrap_or(0).min(1_000_000));
                warp.cycle = warp.cycle.saturating_add(self.launch.model.ns_to_cycles(ns));
            }
            Inst::Wmma { product, .. } => {
                let frame = &mut warp.frames[frame_at];
                let module = self.program.module();
                let product = &module.functions[frame.function].products[product as usize];
                if !tensor::multiply_add(frame, product, active) {
                    // The PTX ISA leaves the result undefined. The refusal shows the defect.
                    let opcode = "wmma.mma of a warp with inactive lanes".to_owned();
                    return Err(FaultKind::IllegalInstruction { opcode });
                }
            }
            _ => warp_ops::run(&mut warp.frames[frame_at], inst, active),
        }
        Ok(())
    }
}
