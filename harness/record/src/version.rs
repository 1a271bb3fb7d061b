//! The version of the record format, and who may read what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format written by this build.
///
/// - 1.0: the first.
pub const FORMAT_VERSION: FormatVersion = FormatVersion { major: 1, minor: 0 };

/// `major.minor`: a reader needs the same major version; a higher minor one only adds fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FormatVersion {
    /// Changes when old readers would misread.
    pub major: u32,
    /// Changes when fields are added.
    pub minor: u32,
}

/// The record was written by a version of gpubench whose format this one cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "record format {}.{} cannot be read by this gpubench, which reads {}.x",
    found.major, found.minor, FORMAT_VERSION.major
)]
pub struct UnreadableVersion {
    /// What the record says.
    pub found: FormatVersion,
}

impl FormatVersion {
    /// Whether this build reads the format.
    ///
    /// # Errors
    /// When the major versions differ.
    pub const fn check_readable(self) -> Result<(), UnreadableVersion> {
        if self.major == FORMAT_VERSION.major {
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
        let newer_minor = FormatVersion {
            minor: FORMAT_VERSION.minor + 1,
            ..FORMAT_VERSION
        };
        assert!(newer_minor.check_readable().is_ok());
        let newer_major = FormatVersion {
            major: FORMAT_VERSION.major + 1,
            minor: 0,
        };
        let text = newer_major.check_readable().map_err(|e| e.to_string());
        assert_eq!(
            text,
            Err("record format 2.0 cannot be read by this gpubench, which reads 1.x".to_owned())
        );
    }
}
