//! Messages to the user of a program: a library has no channel but standard error.

use std::io::Write;

/// Prints one line.
pub fn say(text: &str) {
    // A closed standard error cannot be reported.
    let _ = writeln!(std::io::stderr(), "virtual GPU: {text}");
}
