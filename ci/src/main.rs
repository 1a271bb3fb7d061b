//! The task runner: house rules, schema drift and PTX drift.
fn main() {}
