//! `launch-flood`: the smallest kernel without a pause, so that the launch path is never free.
//! Counter: as in `launch`.

use gpubench_record::Role;

use super::entry::Entry;
use super::launch;

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "launch-flood",
    summary: "launches of the smallest kernel that leave the launch path no rest",
    role: Role::Aggressor,
    ..launch::ENTRY
};
