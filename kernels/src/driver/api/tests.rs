//! The table is complete, without duplicates, and names a missing symbol.

use super::*;

#[test]
fn one_missing_required_symbol_is_named_and_an_optional_one_is_not_missed() {
    // Never called: any non-null address fills the table.
    let somewhere = Api::symbols as *const c_void;
    let without = |gone: &'static str| {
        Api::fill(move |s| if s == gone { std::ptr::null() } else { somewhere })
    };
    for (symbol, required) in Api::symbols() {
        match without(symbol) {
            Ok(_) => assert!(!required, "{symbol} is required but was not missed"),
            Err(error) => {
                assert!(required, "{symbol} is optional but was missed");
                assert_eq!(error, DriverError::MissingSymbol { symbol });
            }
        }
    }
}

#[test]
fn no_symbol_is_in_the_table_twice() {
    let mut symbols = Api::symbols();
    let all = symbols.len();
    symbols.sort_unstable();
    symbols.dedup();
    assert_eq!(symbols.len(), all);
}
