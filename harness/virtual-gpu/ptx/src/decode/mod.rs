//! From statements to decoded instructions: resolves names, checks types, refuses the rest.

mod address;
mod atom;
mod bits;
mod check;
mod control;
mod convert;
mod decoder;
mod dispatch;
mod float;
mod int;
mod link;
mod location;
mod logic;
mod memory;
mod mods;
mod mov;
mod names;
mod operand;
mod product;
mod symbols;
mod warp;

pub(crate) use link::module;
