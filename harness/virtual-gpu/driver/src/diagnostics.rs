//! Messages to the user of a program: a library has no channel but standard error.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

pub fn say(text: &str) {
    // A closed standard error cannot be reported.
    let _ = writeln!(std::io::stderr(), "virtual GPU: {text}");
}

/// Prints one line, once in the life of the process.
pub fn say_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(text.to_owned()) {
        say(text);
    }
}
