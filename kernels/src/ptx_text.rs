//! Reads the entries of PTX text and the sizes of their parameters.

/// Bytes of each parameter of an entry, in order, or `None` where the text has no such entry.
pub(crate) fn param_bytes(ptx: &str, entry: &str) -> Option<Vec<u8>> {
    let mut rest = ptx;
    loop {
        let (_, after) = rest.split_once(".entry")?;
        let after = after.trim_start();
        let end = after.find(|c: char| !is_name(c)).unwrap_or(after.len());
        if &after[..end] == entry {
            return params_of(&after[end..]);
        }
        rest = after;
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// Reads `(.param .u64 a, .param .align 8 .b8 b[16])` at the start of `text`.
fn params_of(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_start();
    let Some(list) = text.strip_prefix('(') else {
        // An entry without parentheses has no parameters.
        return Some(Vec::new());
    };
    let (list, _) = list.split_once(')')?;
    list.split(',').map(str::trim).filter(|param| !param.is_empty()).map(param_size).collect()
}

fn param_size(param: &str) -> Option<u8> {
    let kind = param.split_whitespace().filter_map(scalar_bytes).next_back()?;
    let count = match param.split_once('[') {
        Some((_, length)) => length.trim_end_matches(']').trim().parse::<u8>().ok()?,
        None => 1,
    };
    kind.checked_mul(count)
}

/// Bytes of a fundamental type of PTX (PTX ISA, "Fundamental types").
fn scalar_bytes(word: &str) -> Option<u8> {
    match word {
        ".u8" | ".s8" | ".b8" => Some(1),
        ".u16" | ".s16" | ".b16" | ".f16" => Some(2),
        ".u32" | ".s32" | ".b32" | ".f32" => Some(4),
        ".u64" | ".s64" | ".b64" | ".f64" => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 7.8\n.visible .entry first()\n{\n}\n.visible .entry second(\n\t\
        .param .u64 second_param_0,\n\t.param .f32 second_param_1,\n\t\
        .param .align 8 .b8 second_param_2[16]\n)\n{\n}\n.entry third { ret; }";

    #[test]
    fn sizes_are_read_in_order() {
        assert_eq!(param_bytes(TEXT, "first"), Some(vec![]));
        assert_eq!(param_bytes(TEXT, "second"), Some(vec![8, 4, 16]));
        assert_eq!(param_bytes(TEXT, "third"), Some(vec![]));
    }

    #[test]
    fn a_name_matches_whole_or_not_at_all() {
        for absent in ["", "sec", "second_", "seconds", "fourth"] {
            assert_eq!(param_bytes(TEXT, absent), None, "{absent}");
        }
    }

    #[test]
    fn unreadable_parameters_give_no_signature() {
        assert_eq!(param_bytes(".entry odd(.param .pred p) {}", "odd"), None);
        assert_eq!(param_bytes(".entry cut(.param .u64 p", "cut"), None);
        assert_eq!(param_bytes(".entry big(.param .b8 p[900]) {}", "big"), None);
    }
}
