//! The version of the record format, and which versions this build reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format written by this build.
///
/// - 1.0: the first.
/// - 2.0: the plan holds the facts of workloads, pairs, faults and claims that scoring needs; a
///   fault trial is no cell; a result holds its cell or trial as planned, and the results of its
///   tenants under `tenant_results`; a gate has a scope; a mechanism has its properties in place of
///   `turns_away`; a skip has the `name` of its mechanism.
///   Fault trials: `struck` is `injector`, `fate` is `harm`, `seen` is `observed`.
/// - 2.1: new names for keys; the meaning of values is that of 2.0. Plan: `foreign` is
///   `user_victim`, and so is the name of its workload. Calibration: `canary` is `detector`.
///   Probes: each finding has the name of its probe, and `given_up`, `hogged_bytes`, `kept_out`,
///   `looks`, `seen_in_free`, `seen_in_nvml`, `seen_ns`, `ways`, `way` have new names. Events:
///   `seen` is `observed`. Host: `seen` is `observed`. Tallies: `xids_unheard`, `ecc_untold` end in
///   `unobserved`.
/// - 2.2: a proof belongs to one cell and has its instant; the plan lists the proofs that each cell
///   needs. Proofs are taken `at open`, `once` or `during`, and no longer `before` and `after`.
///   Adds `basis` and `binding` of a calibration; its hash covers what victims do. Peaks:
///   `detector` is `source`, beside the kind of `ceiling`. Figures whose ends are no interval have
///   `range` or `at_least` in place of `lo` and `hi`. Tenants of cells report their `identity`,
///   escapes the windows of their denominator (`native_ppm`).
/// - 2.3: a gate has a kind, and its figure, limit and unit as fields. An interval over blocks has
///   its statistical and its systematic part (`stat_lo`, `stat_hi`, `sys_lo`, `sys_hi`).
///   A row lists the blocks that it leaves out. Gaps of a tenant count long ones apart. The plan
///   has no `blocks_min`: three blocks have an interval, and its width decides. A run that went on
///   after an interruption has `interruptions` and `superseded`, and an event `resumed`.
pub const FORMAT_VERSION: FormatVersion = FormatVersion { major: 2, minor: 3 };

/// The oldest major version that is read. Records of older versions than [`FORMAT_VERSION`] are
/// brought up to date when they are read.
pub const OLDEST_MAJOR: u32 = 1;

/// `major.minor`: a higher major version changes what fields mean, a higher minor one adds or
/// renames fields. Readers of an older minor version fail on a renamed field; they never misread
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FormatVersion {
    /// Changes when old readers would misread.
    pub major: u32,
    /// Changes when fields are added or renamed.
    pub minor: u32,
}

/// The record was written by a version of gpubench whose format this one cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "record format {}.{} cannot be read by this gpubench, which reads {}.x to {}.x",
    found.major, found.minor, OLDEST_MAJOR, FORMAT_VERSION.major
)]
pub struct UnreadableVersion {
    /// The version in the record.
    pub found: FormatVersion,
}

impl FormatVersion {
    /// Whether this build reads the format.
    ///
    /// # Errors
    /// When its major version is newer than this build's, or older than [`OLDEST_MAJOR`].
    pub const fn check_readable(self) -> Result<(), UnreadableVersion> {
        if self.major >= OLDEST_MAJOR && self.major <= FORMAT_VERSION.major {
            Ok(())
        } else {
            Err(UnreadableVersion { found: self })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FORMAT_VERSION, FormatVersion};

    #[test]
    fn only_the_major_version_decides() {
        let newer_minor = FormatVersion { minor: FORMAT_VERSION.minor + 1, ..FORMAT_VERSION };
        assert!(newer_minor.check_readable().is_ok());
        let first = FormatVersion { major: 1, minor: 0 };
        assert!(first.check_readable().is_ok());
        let none = FormatVersion { major: 0, minor: 9 };
        assert!(none.check_readable().is_err());
        let newer_major = FormatVersion { major: FORMAT_VERSION.major + 1, minor: 0 };
        let text = newer_major.check_readable().map_err(|e| e.to_string());
        assert_eq!(
            text,
            Err("record format 3.0 cannot be read by this gpubench, which reads 1.x to 2.x"
                .to_owned())
        );
    }
}
