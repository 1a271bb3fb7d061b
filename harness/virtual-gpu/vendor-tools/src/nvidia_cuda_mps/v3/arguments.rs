//! Arguments of a command: names and `--KEY=VALUE` options.

use std::collections::BTreeMap;

use crate::nvidia_cuda_mps::{MpsError, refuse, rows};

pub(super) struct Arguments<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Arguments<'a> {
    pub(super) fn read(words: &[&'a str]) -> Self {
        let mut arguments = Self { names: Vec::new(), keys: BTreeMap::new() };
        for word in words {
            let option = word.strip_prefix("--");
            match (option.unwrap_or(word).split_once('='), option) {
                (Some((key, value)), _) => _ = arguments.keys.insert(key, value),
                (None, Some(flag)) => _ = arguments.keys.insert(flag, ""),
                (None, None) => arguments.names.push(word),
            }
        }
        arguments
    }

    /// Runs `then` unless there are other keys.
    pub(super) fn accept_only<R>(
        &self,
        known: &[&str],
        then: impl FnOnce(&Self) -> Result<R, MpsError>,
    ) -> Result<R, MpsError> {
        match self.keys.keys().find(|key| !known.contains(key)) {
            Some(key) => refuse(format!("unknown option --{key} (accepted: {known:?})")),
            None => then(self),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key).copied()
    }

    pub(super) fn server(&self) -> Result<&'a str, MpsError> {
        let missing = || MpsError::Refused("--server=NAME is missing".to_owned());
        self.get("server").ok_or_else(missing)
    }

    pub(super) fn table(&self, columns: &[&str], rows: &[Vec<String>]) -> Result<String, MpsError> {
        rows::table(self.get("format").unwrap_or("table"), columns, rows)
    }
}
