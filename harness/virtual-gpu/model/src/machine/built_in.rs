//! The machines that are embedded in the binary.

/// The machines embedded in the binary: name and text.
pub const BUILT_IN: &[(&str, &str)] = gpubench_profiles::MACHINES;

/// The machine that `--device virtual` selects.
pub const DEFAULT: &str = "h100-80";
