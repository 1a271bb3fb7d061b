//! The gpubench command.

fn main() {}
