//! Public functions without a caller outside tests.
//!
//! Callers are found by name: a function with the name of a used function counts as used.

use std::collections::BTreeSet;

use crate::package::{Package, item_end, product_tokens};
use crate::scan::{Kind, Token, reads};
use crate::tree::SourceFile;

/// A function with a body, outside tests.
#[derive(Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    pub line: usize,
    pub reach: Reach,
    pub names: BTreeSet<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// `pub`: any package.
    Public,
    /// Callers outside the scan: users of a trait, C programs.
    External,
    /// Less than `pub`: the compiler reports it if it has no caller.
    Private,
}

/// The functions of a file, and the names outside their bodies and outside `use`.
pub fn functions(file: &SourceFile) -> (Vec<Function<'_>>, BTreeSet<&str>) {
    let scanned = product_tokens(&file.text);
    let (mut found, mut outside) = (Vec::new(), BTreeSet::new());
    let mut trait_end = 0;
    let mut at = 0;
    while at < scanned.len() {
        let token = scanned[at];
        let is_item = token.kind == Kind::Word;
        if is_item && token.text == "use" {
            at = use_end(&scanned, at);
        } else if is_item && token.text == "impl" && is_trait_impl(&scanned, at) {
            trait_end = item_end(&scanned, at);
        } else if is_item && token.text == "fn" && next_is_word(&scanned, at) {
            let end = item_end(&scanned, at + 2).min(scanned.len() - 1);
            let reach = if at < trait_end || is_exported(&scanned, at) {
                Reach::External
            } else if is_public(&scanned, at) {
                Reach::Public
            } else {
                Reach::Private
            };
            found.push(Function {
                name: scanned[at + 1].text,
                line: token.line,
                reach,
                names: named(&scanned[at + 2..=end]).collect(),
            });
            at = end;
        } else if is_item {
            outside.insert(token.text);
        }
        at += 1;
    }
    (found, outside)
}

/// Every name in product code of a package, without `use` and definitions.
pub fn named_in<'a>(package: &Package<'a>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for file in &package.files {
        let (functions, outside) = functions(file);
        found.extend(outside);
        found.extend(functions.into_iter().flat_map(|function| function.names));
    }
    found
}

fn named<'t, 'a: 't>(scanned: &'t [Token<'a>]) -> impl Iterator<Item = &'a str> + use<'t, 'a> {
    let words = scanned.iter().filter(|token| token.kind == Kind::Word);
    words.map(|token| token.text)
}

fn next_is_word(scanned: &[Token<'_>], at: usize) -> bool {
    let next = scanned.get(at + 1);
    next.is_some_and(|token| token.kind == Kind::Word)
}

fn use_end(scanned: &[Token<'_>], at: usize) -> usize {
    let rest = scanned[at..].iter();
    rest.take_while(|token| token.text != ";").count() + at
}

fn is_trait_impl(scanned: &[Token<'_>], at: usize) -> bool {
    let head = scanned[at..].iter().take_while(|token| token.text != "{");
    head.into_iter().any(|token| token.text == "for")
}

fn is_exported(scanned: &[Token<'_>], at: usize) -> bool {
    at >= 2 && reads(scanned, at - 2, "extern")
}

/// Whether an unrestricted `pub` precedes `fn`, with `const`, `async` or `unsafe` between them.
fn is_public(scanned: &[Token<'_>], at: usize) -> bool {
    let before = scanned[..at].iter().rev();
    let mut words = before.skip_while(|token| ["const", "async", "unsafe"].contains(&token.text));
    words.next().is_some_and(|token| token.text == "pub")
}

/// Public functions of `packages` that no product code names, with their files.
pub fn uncalled<'a>(packages: &[Package<'a>]) -> Vec<(&'a SourceFile, Function<'a>)> {
    let named: BTreeSet<&str> = packages.iter().flat_map(named_in).collect();
    let files = packages.iter().flat_map(|package| package.files.iter());
    let all = files.flat_map(|file| functions(file).0.into_iter().map(move |one| (*file, one)));
    all.filter(|(_, one)| one.reach == Reach::Public && !named.contains(one.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_callers_that_their_visibility_allows() {
        let source = "pub fn a() { b(); } fn c() {} pub(crate) fn d() {} \
            pub unsafe extern \"C\" fn e() {} impl T for U { fn f() {} } pub const fn g() {} \
            impl U { pub fn h() {} } #[cfg(test)] mod t { pub fn i() {} }";
        let file = SourceFile { path: "a.rs".to_owned(), text: source.to_owned() };
        let (found, _) = functions(&file);
        let reaches: Vec<(&str, Reach)> = found.iter().map(|one| (one.name, one.reach)).collect();
        assert_eq!(
            reaches,
            [
                ("a", Reach::Public),
                ("c", Reach::Private),
                ("d", Reach::Private),
                ("e", Reach::External),
                ("f", Reach::External),
                ("g", Reach::Public),
                ("h", Reach::Public),
            ]
        );
        assert!(found[0].names.contains("b"));
    }
}
