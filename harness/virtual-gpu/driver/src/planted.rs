//! Answers that the machine file plants: for the n-th call of a function by a process of some role.

use std::cell::Cell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use crate::process::device;
use crate::session::ENV;
use gpubench_virtual_gpu_model::machine::{Asker, PlantedAnswer, Sharing};

/// The first argument of a tenant, as `gpubench` starts it.
const TENANT: &str = "__tenant";

thread_local! {
    /// The numbers that the running call stores.
    static VALUES: Cell<[Option<u64>; 2]> = const { Cell::new([None; 2]) };
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
        let sharing = sharing();
        let own = planted.into_iter().filter(is_for_this);
        let own = own.filter(|one| one.under.is_none_or(|under| under == sharing));
        own.map(|one| (one, Mutex::new(0))).collect()
    })
}

/// How this process shares the GPU.
fn sharing() -> Sharing {
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    if variable("CUDA_VISIBLE_DEVICES").as_encoded_bytes().starts_with(b"MIG-") {
        Sharing::Mig
    } else if !variable("LD_PRELOAD").is_empty() {
        Sharing::Preload
    } else if Path::new(&variable("CUDA_MPS_PIPE_DIRECTORY")).is_dir() {
        Sharing::Mps
    } else {
        Sharing::Alone
    }
}

/// What is planted for this call of `name`, which counts it. A call that hangs does not return.
pub fn answer(name: &str) -> Option<&'static PlantedAnswer> {
    let planted = answers();
    if planted.is_empty() {
        return None;
    }
    let (found, _) = planted.iter().find(|(one, calls)| {
        let is_called = match one.call.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => one.call == name,
        };
        if !is_called {
            return false;
        }
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls += 1;
        let nth = (*calls - 1).checked_sub(one.after);
        nth.is_some_and(|nth| one.times.is_none_or(|times| nth < times))
    })?;
    if found.wait_ms > 0 {
        std::thread::sleep(Duration::from_millis(found.wait_ms));
    }
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
    VALUES.set(planted.map_or([None; 2], |one| [one.value, one.second]));
    planted?.code
}

/// The number that the running call stores next instead of its own.
pub fn take_value() -> Option<u64> {
    let [next, after] = VALUES.take();
    VALUES.set([after, None]);
    next
}
