//! The name that a user who mistyped one means.

/// What others call a format.
const FORMATS: [(&str, &str); 4] =
    [("markdown", "md"), ("prometheus", "openmetrics"), ("terminal", "text"), ("table", "text")];

/// The known name that differs from this one by a slip: case, a missing end, or few letters. None
/// where several would do.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    // Short names become one another too easily.
    let slips = name.chars().count() / 4 + 1;
    let known: Vec<&str> = known.into_iter().collect();
    let format = FORMATS.iter().find(|(other, _)| *other == name).map(|(_, own)| *own);
    if let Some(one) = known.iter().find(|one| Some(**one) == format) {
        return Some(one);
    }
    let beginning = known.iter().filter(|one| name.len() > 2 && one.starts_with(&name));
    if let [one] = beginning.copied().collect::<Vec<_>>()[..] {
        return Some(one);
    }
    // The whole name, or what is before its number: `h100` of `h100-80`.
    let of_name = |one: &'a str| {
        let lower = one.to_lowercase();
        let head = lower.split_once('-').filter(|(_, rest)| rest.parse::<u32>().is_ok());
        let of_head = head.map(|(head, _)| (distance(&name, head), true, one));
        std::iter::once((distance(&name, &lower), false, one)).chain(of_head)
    };
    let by_distance = known.into_iter().flat_map(of_name);
    let mut near: Vec<_> = by_distance.filter(|(far, ..)| *far <= slips.min(2)).collect();
    near.sort_unstable();
    match near[..] {
        [(first, of_first, _), (second, of_second, _), ..]
            if (first, of_first) == (second, of_second) =>
        {
            None
        }
        _ => near.first().map(|(.., one)| *one),
    }
}

/// The same of an error text: `"smok" (known: smoke, nightly)`.
pub fn of_text(text: &str) -> Option<&str> {
    let (before, list) =
        text.split_once(" (known: ").or_else(|| text.split_once(" (accepted: "))?;
    let name = before.rsplit('"').nth(1)?;
    let list = list.split(')').next().unwrap_or_default();
    nearest(name, list.split([',', ';']).map(str::trim))
}

/// Letters that are added, left out, replaced or swapped with the next.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(x != y);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{nearest, of_text};

    #[test]
    fn a_slip_has_the_name_that_is_meant_and_another_word_has_none() {
        let verbs = ["plan", "report", "export", "list", "history", "files", "compare"];
        for (name, meant) in [
            ("rpeort", Some("report")),
            ("markdown", None),
            ("reprot", Some("report")),
            ("hist", Some("history")),
            ("explain", None),
            ("Plan", Some("plan")),
            ("pla", Some("plan")),
            ("machines", None),
        ] {
            assert_eq!(nearest(name, verbs), meant, "{name}");
        }
        for (text, meant) in [
            ("unknown profile \"smok\" (known: default, smoke, or the path of a file)", "smoke"),
            ("unknown machine \"h100-8\" (known: t4, h100-80, h200; or a path)", "h100-80"),
            ("unknown machine \"H100-80\" (known: a100-80, h100-80)", "h100-80"),
            ("unknown machine \"h101\" (known: hopper, a100-80, h100-80, h200, a10)", "h100-80"),
            ("\"virtul\" is not a device (accepted: virtual, virtual:MACHINE)", "virtual"),
        ] {
            assert_eq!(of_text(text), Some(meant));
        }
    }
}
