//! `stream-priority`: tenants are threads of one process with a stream each; the victim's has the
//! greatest priority, the neighbours' have the least.
//!
//! A priority is a hint: work of higher priority is preferred when blocks are placed, and work that
//! runs is not preempted (CUDA driver API, `cuStreamCreateWithPriority`). It divides nothing: the
//! tenants share SMs, memory, address space and fate, and only what their rates show is scored.
//!
//! The proof is that NVML lists one process, ours. That the streams have their priorities is the
//! driver's word to the tenant that made them.

use gpubench_record::Proof;
use gpubench_record::wire::Inside;

use super::green_context::one_process;
use super::{Asked, Mechanism, Seen, device_is_cut, prohibited};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct StreamPriority;

impl Mechanism for StreamPriority {
    fn name(&self) -> &'static str {
        "stream-priority"
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let waived = device_is_cut(asked.facts).or_else(|| prohibited(asked.facts));
        waived.unwrap_or(Availability::Available)
    }

    fn inside(&self, places: usize) -> Vec<Inside> {
        let one = |place| Inside::StreamPriority { high: place == 0 };
        (0..places).map(one).collect()
    }

    fn prove(&self, _asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        if seen.condition.is_native() || seen.tenants.len() < 2 {
            return Vec::new();
        }
        one_process(seen).into_iter().collect()
    }
}
