//! `alloc-storm`: allocations and frees without a pause, so that the driver's locks are never free.
//! Counter: as in `alloc`.

use gpubench_record::Role;

use super::alloc;
use super::entry::Entry;

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "alloc-storm",
    summary: "allocates and frees device memory without a pause",
    role: Role::Aggressor,
    ..alloc::ENTRY
};
