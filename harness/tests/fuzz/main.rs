//! Fuzzing of everything that reads text or bytes of others: no input panics, hangs, or is refused
//! with more than one line.
//!
//! `cargo test --test fuzz` runs the corpus (`__fuzz__/NAME/corpus`) and random inputs for a second
//! each; `BOLERO_RANDOM_TEST_TIME_MS` sets another time. A failure prints its input, which belongs
//! into the corpus once it is mended.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]

mod edit;
mod records;
mod texts;

/// Longest message: what it quotes of an input has 200 bytes, the rest is our own.
const MESSAGE_BYTES: usize = 2000;

/// Fails unless a message is one line of bounded length.
fn is_one_line(message: &str) {
    assert!(!message.contains('\n'), "several lines: {message:?}");
    assert!(!message.trim().is_empty(), "an empty message");
    assert!(message.len() <= MESSAGE_BYTES, "{} bytes: {message}", message.len());
}
