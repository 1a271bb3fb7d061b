//! The machines that are embedded in the binary.

/// Names and texts of these files in `profiles/machines/`.
macro_rules! embedded {
    ($($name:literal,)*) => {
        &[$((
            $name,
            include_str!(concat!("../../../../../profiles/machines/", $name, ".toml")),
        ),)*]
    };
}

/// The machines embedded in the binary: name and text.
pub const BUILT_IN: &[(&str, &str)] =
    embedded!["hopper", "turing", "a100-80", "h100-80", "h200", "b200",];

/// The machine that `--device virtual` selects.
pub const DEFAULT: &str = "h100-80";
