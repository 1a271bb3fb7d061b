//! The profiles that come with the binary. To add one, add its file and its line here.

/// A profile inside the binary.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// The name that `--profile` takes.
    pub name: &'static str,
    pub text: &'static str,
}

impl BuiltIn {
    /// Its `summary`. Tests check that every profile has one.
    #[must_use]
    pub fn summary(&self) -> String {
        let table = self.text.parse::<toml::Table>().unwrap_or_default();
        table.get("summary").and_then(toml::Value::as_str).unwrap_or("").to_owned()
    }
}

/// The profile of a name, from the file of that name.
macro_rules! built_in {
    ($name:literal) => {
        BuiltIn { name: $name, text: include_str!(concat!("../../../profiles/", $name, ".toml")) }
    };
}

/// The profile that all others are laid over.
pub const DEFAULT: BuiltIn = built_in!("default");

/// Every built-in profile.
pub const CATALOGUE: &[BuiltIn] = &[
    DEFAULT,
    built_in!("smoke"),
    built_in!("nightly"),
    built_in!("weekly"),
    built_in!("online-inference"),
    built_in!("notebooks"),
    built_in!("batch-training"),
    built_in!("student-lab"),
    built_in!("saas-hostile"),
    built_in!("oversubscription"),
    built_in!("scaling"),
    // `claims.toml` is the ledger itself.
    BuiltIn { name: "claims", text: include_str!("../../../profiles/claims-profile.toml") },
];

/// Every name.
#[must_use]
pub fn names() -> Vec<String> {
    CATALOGUE.iter().map(|built_in| built_in.name.to_owned()).collect()
}
