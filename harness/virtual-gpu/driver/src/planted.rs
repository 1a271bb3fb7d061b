//! Answers that the machine file plants: for the n-th call of a function by a process of some role.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::{OnceLock, PoisonError};

use crate::process::device;
use crate::session::ENV;
use gpubench_virtual_gpu_model::machine::{Asker, PlantedAnswer};

/// The first argument of a tenant, as `gpubench` starts it.
const TENANT: &str = "__tenant";

thread_local! {
    /// The number that the running call stores.
    static VALUE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A planted answer with the number of calls so far.
type Counted = (PlantedAnswer, Mutex<u64>);

/// The answers that are planted for this process.
fn answers() -> &'static [Counted] {
    static ANSWERS: OnceLock<Vec<Counted>> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        let machine = std::env::var_os(ENV).and_then(|_| device().ok());
        let planted = machine.map_or_else(Vec::new, |device| device.machine().answers.clone());
        let is_tenant = std::env::args_os().nth(1).is_some_and(|verb| verb == TENANT);
        let is_for_this = |one: &PlantedAnswer| match one.role {
            Asker::Any => true,
            Asker::Tenant => is_tenant,
            Asker::Coordinator => !is_tenant,
        };
        let own = planted.into_iter().filter(is_for_this);
        own.map(|one| (one, Mutex::new(0))).collect()
    })
}

/// What is planted for this call of `name`, which counts it. A call that hangs does not return.
pub fn answer(name: &str) -> Option<&'static PlantedAnswer> {
    let planted = answers();
    if planted.is_empty() {
        return None;
    }
    let (found, _) = planted.iter().find(|(one, calls)| {
        if one.call != name {
            return false;
        }
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls += 1;
        let nth = (*calls - 1).checked_sub(one.after);
        nth.is_some_and(|nth| one.times.is_none_or(|times| nth < times))
    })?;
    if found.hang {
        loop {
            std::thread::park();
        }
    }
    Some(found)
}

/// What is planted for this call as its result; a number that it stores is kept for
/// [`take_value`].
pub fn result(name: &str) -> Option<i32> {
    let planted = answer(name);
    VALUE.set(planted.and_then(|one| one.value));
    planted?.code
}

/// The number that the running call stores instead of its own.
pub fn take_value() -> Option<u64> {
    VALUE.take()
}
