//! The form of the names and texts in a machine file.

use super::{Machine, MachineError, wrong};

/// Longest name and longest line of text.
const NAME_BYTES: usize = 64;
const TEXT_BYTES: usize = 200;

impl Machine {
    /// Refuses names that are no plain names, and texts of several lines.
    pub(super) fn check_names(&self, path: &str) -> Result<(), MachineError> {
        let profiles = self.mig.iter().flat_map(|mig| &mig.profile);
        let names = profiles.map(|profile| ("mig.profile.name", &profile.name));
        for (key, name) in std::iter::once(("name", &self.name)).chain(names) {
            if !is_name(name) {
                let accepted = "1 to 64 letters, digits, and the signs . _ + -";
                return wrong(path, key, name, accepted);
            }
        }
        let (gpu, faults) = (&self.gpu, self.faults.measured.as_ref());
        let boards = gpu.boards.iter().map(|board| ("gpu.boards", board));
        let records = faults.iter().flat_map(|measured| &measured.records);
        let texts = [
            ("summary", &self.summary),
            ("gpu.product", &gpu.product),
            ("gpu.driver", &gpu.driver),
        ];
        let records = records.map(|record| ("faults.measured.records", record));
        for (key, text) in texts.into_iter().chain(boards).chain(records) {
            if text.len() > TEXT_BYTES || text.contains(char::is_control) {
                return wrong(path, key, text, "one line of at most 200 bytes");
            }
        }
        for (key, text) in
            [("gpu.compute_capability", &gpu.compute_capability), ("gpu.cuda", &gpu.cuda)]
        {
            if !is_version(text) {
                return wrong(path, key, text, "two numbers below 100, as in 9.0");
            }
        }
        Ok(())
    }
}

/// Whether a name can be part of a path, of a UUID's source and of a command line.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.')
}

fn is_version(text: &str) -> bool {
    let is_number = |part: &str| {
        (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}
