//! Messages to whoever runs the program: a library has no channel but its standard error.

use std::io::Write;

/// Prints one line.
pub fn say(text: &str) {
    // A closed stderr cannot be told about anyway.
    let _ = writeln!(std::io::stderr(), "virtual GPU: {text}");
}
