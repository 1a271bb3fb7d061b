//! The list of mechanisms. To add one, add its line here, and its file with its `mod` line in
//! `mechanism/` of `gpubench-host`.
//!
//! A line is the module there, its type, and the name for the command line, profiles and records,
//! in report order. `gpubench-host` builds its catalogue from the same lines, so a line without a
//! file, or a file that leaves a fact out, does not compile. Plans get the facts of a mechanism
//! with its capability, and scores with the plan in the record.

use std::sync::OnceLock;

/// Calls the macro `$with` with every line of the list.
#[macro_export]
macro_rules! mechanisms {
    ($with:ident) => {
        $with! {
            exclusive::Exclusive => "exclusive",
            exclusive_process::ExclusiveProcess => "exclusive-process",
            time_slicing::TimeSlicing => "time-slicing",
            time_slicing_capped::TimeSlicingCapped => "time-slicing-capped",
            mps::Mps => "mps",
            mps_quota::MpsQuota => "mps-quota",
            mps_static::MpsStatic => "mps-static",
            mps_memory::MpsMemory => "mps-memory",
            mig::Mig => "mig",
            mig_mps::MigMps => "mig-mps",
            hami::Hami => "hami",
            green_context::GreenContext => "green-context",
            stream_priority::StreamPriority => "stream-priority",
        }
    };
}

/// The mechanism of native cells. Its tenants share nothing
/// ([`Sharing::Reference`](gpubench_record::Sharing::Reference)).
pub const REFERENCE: &str = "exclusive";

macro_rules! names {
    ($($module:ident::$kind:ident => $name:literal,)*) => {
        &[$($name),*]
    };
}

/// Every name, in report order.
pub const fn names() -> &'static [&'static str] {
    mechanisms!(names)
}

/// Names of the mechanisms that the user describes.
static DESCRIBED: OnceLock<Vec<&'static str>> = OnceLock::new();

/// Adds the names of described mechanisms. Returns whether there were none before.
pub fn add(names: Vec<&'static str>) -> bool {
    DESCRIBED.set(names).is_ok()
}

/// Every name, those of described mechanisms last.
pub fn all_names() -> Vec<&'static str> {
    names().iter().chain(DESCRIBED.get().into_iter().flatten()).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{REFERENCE, names};

    #[test]
    fn names_are_unique_and_fit_for_files_and_tables() {
        let unique: BTreeSet<_> = names().iter().collect();
        assert_eq!(unique.len(), names().len());
        for name in names() {
            let fits = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(!name.is_empty() && name.chars().all(fits), "{name}");
        }
        assert!(names().contains(&REFERENCE));
    }
}
