//! From statements to decoded instructions: resolves names, checks types, refuses the rest.

mod control;
mod decoder;
mod dispatch;
mod float;
mod half;
mod int;
mod link;
mod logic;
mod memory;
mod names;
mod texture;

pub(crate) use link::module;
