//! The grammar: from tokens to statements.

mod body;
mod cursor;
mod module;
mod variable;

pub(crate) use module::module;
