//! The profiles that come with the binary. To add one, add its file and its line here.

/// A profile inside the binary.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// The name that `--profile` takes.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl BuiltIn {
    /// Its own `summary`; empty if it has none, which a test rules out.
    #[must_use]
    pub fn summary(&self) -> String {
        let table = self.text.parse::<toml::Table>().unwrap_or_default();
        table
            .get("summary")
            .and_then(toml::Value::as_str)
            .unwrap_or("")
            .to_owned()
    }
}

/// The one that all others are laid over.
pub const DEFAULT: BuiltIn = BuiltIn {
    name: "default",
    text: include_str!("../../../profiles/default.toml"),
};

/// Every built-in profile.
pub const CATALOGUE: &[BuiltIn] = &[
    DEFAULT,
    BuiltIn {
        name: "smoke",
        text: include_str!("../../../profiles/smoke.toml"),
    },
    BuiltIn {
        name: "nightly",
        text: include_str!("../../../profiles/nightly.toml"),
    },
    BuiltIn {
        name: "online-inference",
        text: include_str!("../../../profiles/online-inference.toml"),
    },
    BuiltIn {
        name: "notebooks",
        text: include_str!("../../../profiles/notebooks.toml"),
    },
    BuiltIn {
        name: "batch-training",
        text: include_str!("../../../profiles/batch-training.toml"),
    },
    BuiltIn {
        name: "student-lab",
        text: include_str!("../../../profiles/student-lab.toml"),
    },
    BuiltIn {
        name: "saas-hostile",
        text: include_str!("../../../profiles/saas-hostile.toml"),
    },
    BuiltIn {
        name: "oversubscription",
        text: include_str!("../../../profiles/oversubscription.toml"),
    },
];

/// Every name.
#[must_use]
pub fn names() -> Vec<String> {
    CATALOGUE
        .iter()
        .map(|built_in| built_in.name.to_owned())
        .collect()
}
