//! The version of the record format, and which versions this build reads.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format written by this build.
///
/// - 1.0: the first.
/// - 2.3: the plan holds the facts of workloads, pairs, faults and claims that scoring needs, and
///   the proofs that each cell needs; a proof belongs to one cell and has its instant. A fault
///   trial is no cell; a result holds its cell or trial as planned, and the results of its tenants
///   under `tenant_results`. A mechanism has its properties in place of `turns_away`; a skip has
///   the `name` of its mechanism. A gate has a scope and a kind, and its figure, limit and unit as
///   fields. An interval over blocks has its statistical and its systematic part (`stat_lo`,
///   `stat_hi`, `sys_lo`, `sys_hi`); figures whose ends are no interval have `range` or `at_least`
///   in place of `lo` and `hi`. A row lists the blocks that it leaves out. A calibration has its
///   `basis` and `binding`, and its hash covers what victims do. Many keys have new names: `serde`
///   aliases in the types of the record.
/// - 2.4: a cell may have a sparse phase, whose samples have the phase `sparse`, and a result the
///   latencies of its lone requests; a plan has the sub-axes of its jitter. A figure may be a bound
///   without a value. Thresholds have new names and values (`scoring-v4`). Findings about memory
///   count releases and mappings. A plan has the number of looks that can decide a row, an output
///   the parts that were read inside the window, and lost CPU time a sparse phase. A plan
///   has the time that each part will take, and a record what its time was spent on.
pub const FORMAT_VERSION: FormatVersion = FormatVersion { major: 2, minor: 4 };

/// The oldest format of the same major version that is read.
const OLDEST_VERSION: FormatVersion = FormatVersion { major: 2, minor: 3 };

/// The format of the first published records. It is read beside [`FORMAT_VERSION`]; no record of
/// the versions between them was published.
pub const FIRST_VERSION: FormatVersion = FormatVersion { major: 1, minor: 0 };

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

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The record was written by a version of gpubench whose format this one cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "record format {found} cannot be read by this gpubench, which reads {}{}.x from {} on",
    if *reads_first { "1.0 and " } else { "" },
    OLDEST_VERSION.major,
    OLDEST_VERSION
)]
pub struct UnreadableVersion {
    /// The version in the record.
    pub found: FormatVersion,
    /// Whether [`FIRST_VERSION`] is read: it is in `record.json` and not in the events of a run.
    pub reads_first: bool,
}

impl FormatVersion {
    /// Whether a `record.json` of the format is read.
    /// Fails when it is neither [`FIRST_VERSION`] nor 2.3 or a later one of the same major version.
    pub fn check_readable(self) -> Result<(), UnreadableVersion> {
        let unreadable = |error| UnreadableVersion { reads_first: true, ..error };
        if self == FIRST_VERSION { Ok(()) } else { self.check_current().map_err(unreadable) }
    }

    /// Whether the events of a run of the format are read.
    /// Fails when it is neither 2.3 nor a later one of the same major version.
    pub fn check_current(self) -> Result<(), UnreadableVersion> {
        if self.major == OLDEST_VERSION.major && self.minor >= OLDEST_VERSION.minor {
            Ok(())
        } else {
            Err(UnreadableVersion { found: self, reads_first: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_VERSION, FORMAT_VERSION, FormatVersion};

    #[test]
    fn the_first_and_the_current_version_and_later_minor_ones_are_read() {
        let newer_minor = FormatVersion { minor: FORMAT_VERSION.minor + 1, ..FORMAT_VERSION };
        assert!(newer_minor.check_readable().is_ok());
        assert!(FIRST_VERSION.check_readable().is_ok());
        for (major, minor) in [(0, 9), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0)] {
            let text = FormatVersion { major, minor }.check_readable().map_err(|e| e.to_string());
            let said = format!(
                "record format {major}.{minor} cannot be read by this gpubench, which reads 1.0 \
                 and 2.x from 2.3 on"
            );
            assert_eq!(text, Err(said));
        }
        let said = "record format 1.0 cannot be read by this gpubench, which reads 2.x from 2.3 on";
        let text = FIRST_VERSION.check_current().map_err(|e| e.to_string());
        assert_eq!(text, Err(said.to_owned()));
    }
}
