//! Green contexts: SMs set aside for some streams of one process.
//!
//! A green context lives in the primary context's address space and its kernels run beside those of
//! the process's other green contexts, each on its own SMs. Nothing else is divided: memory,
//! bandwidth and the end by a fault are the whole process's.

use std::collections::BTreeMap;

use crate::calls::context::{release, retain};
use crate::code::{self, Code, refuse};
use crate::entries::{ContextEntry, ContextPlacement, GreenEntry, SmRange};
use crate::handles::Handle;
use crate::placement;
use crate::process::{Process, process};
use gpubench_virtual_gpu_model::lifecycle;
pub use gpubench_virtual_gpu_model::machine::granularity;
use gpubench_virtual_gpu_model::state::{Context, ONE, Order, State, Stream};

/// Sizes of the groups and what is left, when SMs are divided into groups of at least `least`.
pub fn split(all: SmRange, groups: u32, least: u32, steps: &Steps) -> Result<Split, Code> {
    refuse(least > all.count, code::INVALID_RESOURCE_CONFIGURATION)?;
    let size = least.max(steps.min_partition);
    // All SMs together always make one group.
    let size = match size.next_multiple_of(steps.alignment) {
        more if more > all.count && all.count >= steps.min_partition => all.count,
        size => size,
    };
    let fit = (all.count / size.max(1)).min(steps.most_of(size));
    refuse(fit == 0, code::INVALID_RESOURCE_CONFIGURATION)?;
    let made = fit.min(groups);
    Ok(Split {
        size,
        fit,
        rest: SmRange { first: all.first + made * size, count: all.count - made * size },
    })
}

/// In what steps SMs are divided.
pub struct Steps {
    min_partition: u32,
    alignment: u32,
    /// Groups of one step at most.
    most: u32,
}

impl Steps {
    /// The steps of a compute capability.
    pub fn of(major: u32, ignore_coscheduling: bool, smallest_groups: Option<u32>) -> Self {
        let (min_partition, alignment) = granularity(major, ignore_coscheduling);
        let most = smallest_groups.filter(|_| !ignore_coscheduling);
        Self { min_partition, alignment, most: most.unwrap_or(u32::MAX) }
    }

    fn most_of(&self, size: u32) -> u32 {
        if size <= self.alignment { self.most } else { u32::MAX }
    }
}

/// How SMs are divided.
pub struct Split {
    /// SMs of a group.
    pub size: u32,
    /// Groups that there could be.
    pub fit: u32,
    /// SMs that are left over.
    pub rest: SmRange,
}

/// The SMs that a whole context of the process may use.
pub fn all_sms(process: &Process) -> Result<SmRange, Code> {
    let context = placement::visible_context(&process.device)?;
    let part = process.device.shared().read(|state| placement::part(state, &context))?;
    Ok(SmRange { first: part.sm_first, count: part.sm_count })
}

/// Enters a green context in the shared state: a context beside the primary one, in its group and
/// its address space, with a default stream.
fn enter(state: &mut State, primary: u32, sms: u32, range: SmRange) -> Option<(u32, u32)> {
    let slot = state.contexts.claim(|c| !c.live)?;
    let stream = state.streams.claim(|s| !s.live)?;
    state.contexts.rows[slot] = Context {
        bytes: 0,
        active_ns: 0,
        intervals: state.contexts.rows[slot].intervals,
        sm_first: range.first,
        sm_count: range.count,
        sm_share: ONE * u64::from(range.count) / u64::from(sms),
        ..state.contexts.rows[primary as usize]
    };
    state.streams.rows[stream] = Stream::of(slot as u32, Order::Legacy);
    Some((slot as u32, stream as u32))
}

/// Makes a green context on these SMs.
pub fn create(process: &Process, range: SmRange) -> Result<Handle, Code> {
    let planted = process.device.machine().defects.green_contexts_whole;
    let range = if planted { all_sms(process)? } else { range };
    let primary = retain(process, 0)?;
    let entry = process.ready()?.contexts.get(primary)?.clone();
    let device = &process.device;
    process.charge(process.host().other_ns)?;
    let sms = device.machine().gpu.sm_count;
    let made = device.transact(|state, _| enter(state, entry.slot, sms, range))?;
    let (slot, default_stream) = made.ok_or(code::OUT_OF_MEMORY)?;
    let placement =
        ContextPlacement { context: slot, sm_first: range.first, sm_count: range.count };
    let mut tables = process.tables();
    let context = tables.contexts.insert(ContextEntry {
        placement,
        default_stream,
        limits: BTreeMap::new(),
        ..entry
    })?;
    let context = context as usize;
    tables.greens.insert(GreenEntry { placement, context })
}

pub fn destroy(green: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = *process.ready()?.greens.get(green)?;
    let device = &process.device;
    let slot = entry.placement.context;
    device.transact(|state, _| lifecycle::close_context(state, device.rules(), slot))?;
    {
        let mut tables = process.tables();
        tables.greens.remove(green)?;
        tables.contexts.remove(entry.context as Handle)?;
        tables.streams.remove_where(|stream| stream.placement.context == slot);
    }
    release(0)
}

#[cfg(test)]
mod tests {
    use super::{SmRange, Split, Steps, split};

    fn of(sms: u32, groups: u32, least: u32, steps: &Steps) -> Option<Split> {
        let whole = SmRange { first: 0, count: sms };
        split(whole, groups, least, steps).ok()
    }

    #[test]
    fn sms_are_divided_in_the_chip_s_steps() {
        let sizes = |split: Option<Split>| split.map(|s| (s.size, s.rest.count));
        let loose = of(132, 2, 66, &Steps::of(9, true, None));
        assert_eq!(sizes(loose), Some((66, 0)));
        for (major, smallest, of_five) in [(6, 1, 5), (7, 2, 6), (8, 4, 6), (9, 8, 8), (12, 8, 8)] {
            let of = |least| of(40, 1, least, &Steps::of(major, false, None)).map(|s| s.size);
            assert_eq!((of(1), of(5)), (Some(smallest), Some(of_five)), "capability {major}");
        }
        let rest = of(132, 2, 60, &Steps::of(9, false, None)).map(|s| s.rest);
        let last = SmRange { first: 128, count: 4 };
        assert_eq!(rest, Some(last), "64, 64 and 4 left, never 66 and 66");
    }

    /// What an H100 80GB HBM3 of 132 SMs answered (driver 580.159.04, 2026-11-22): the least size
    /// of a group, and the groups' number and size and what was left.
    #[test]
    fn an_h100_is_divided_as_one_was() {
        let steps = Steps::of(9, false, Some(15));
        for (least, groups, size, left) in [
            (1, 15, 8, 12),
            (8, 15, 8, 12),
            (16, 8, 16, 4),
            (56, 2, 56, 20),
            (57, 2, 64, 4),
            (64, 2, 64, 4),
            (66, 1, 72, 60),
            (132, 1, 132, 0),
        ] {
            let found = of(132, 20, least, &steps).map(|s| (s.fit, s.size, s.rest.count));
            assert_eq!(found, Some((groups, size, left)), "of at least {least}");
        }
        let loose = of(132, 20, 9, &Steps::of(9, true, Some(15)));
        let loose = loose.map(|s| (s.fit, s.size, s.rest.count));
        assert_eq!(loose, Some((13, 10, 2)));
        assert!(of(132, 1, 133, &steps).is_none(), "more than there are");
        assert!(of(7, 1, 7, &steps).is_none(), "less than a step");
        assert!(of(0, 1, 0, &steps).is_none(), "none at all");
    }
}
