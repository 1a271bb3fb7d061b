//! The published schemas of what verbs print as JSON.

/// A schema: draft 2020-12 of JSON Schema.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    pub name: &'static str,
    /// The version of the format; another one breaks readers.
    pub version: u32,
    /// The command lines that print it, with `--format json`.
    pub printed_by: &'static str,
    pub text: &'static str,
}

macro_rules! published {
    ($($name:literal $version:expr, $by:literal;)*) => {
        &[$(Published {
            name: $name,
            version: $version,
            printed_by: $by,
            text: include_str!(concat!("../schema/", $name, ".json")),
        }),*]
    };
}

pub const ALL: &[Published] = published! {
    "record" 2, "matrix, report; record.json (format_version)";
    "plan" 2, "plan (plan_format)";
    "rehearsal" 2, "plan --rehearse (rehearsal_format)";
    "choose" 1, "choose (format)";
    "claims" 2, "claims (claims_format)";
    "diff" 2, "diff (diff_format)";
    "history" 2, "history (history_format)";
    "pins" 1, "history pins (pins_format)";
    "prune" 1, "history prune (prune_format)";
    "compare" 1, "compare (compare_format)";
    "outliers" 1, "outliers (outliers_format)";
    "doctor" 2, "doctor (doctor_format)";
    "spread" 1, "doctor --calibrate (version)";
    "watch" 1, "watch --events (version of its first line)";
    "nightly" 1, "nightly (nightly_format)";
    "export" 1, "export (export_format)";
    "cleanup" 1, "cleanup (cleanup_format)";
    "list" 2, "list (list_format)";
    "schemas" 2, "schemas (schemas_format)";
    "advise" 2, "advise (advise_format)";
    "simulate" 2, "simulate (simulate_format)";
    "pack" 2, "pack (pack_format)";
    "virtual-gpu" 2, "virtual-gpu list (virtual_gpu_format)";
    "fidelity" 1, "virtual-gpu fidelity (fidelity_format)";
};
