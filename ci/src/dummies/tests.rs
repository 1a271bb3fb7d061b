//! Tests of the dummies on small trees; the real tree is compiled by `gpubench-ci dummies`.

use super::*;
use crate::tree::repository_root;

fn map(row: &str) -> String {
    let rows: String =
        KINDS.iter().map(|kind| format!("| {kind} | `old_one` | `a/x.rs` | {row} |\n")).collect();
    format!(
        "## Where do I put...\n\n| to add | copy | new file | lines |\n|---|---|---|---|\n{rows}"
    )
}

fn follow_all(row: &str) -> Result<(Changed, Vec<Touched>), String> {
    let text = map(row);
    let tree = Tree::of(&[
        (MAP, text.as_str()),
        ("a/old_one.rs", "//! `old-one`.\npub struct OldOne;\n"),
        (
            "a/mod.rs",
            "mod other;\nmod old_one;\n\n&[\n    Entry {\n        name: \"other\",\n    },\n    \
             Entry {\n        name: \"old-one\",\n    },\n]\n",
        ),
    ]);
    with_dummies(&tree).map_err(|error| error.to_string())
}

#[test]
fn a_row_is_followed_to_the_letter() {
    let (changed, touched) = follow_all("`a/mod.rs`: `mod x;`, `Entry { \"x\" }`").unwrap();
    let file = &changed["a/dummy_entry_mechanism.rs"];
    assert_eq!(file, "//! `dummy-entry-mechanism`.\npub struct DummyEntryMechanism;\n");
    let list = &changed["a/mod.rs"];
    assert!(list.contains("mod old_one;\nmod dummy_entry_probe;\n"), "{list}");
    let entry = "    Entry {\n        name: \"dummy-entry-probe\",\n    },\n";
    assert!(list.contains(entry), "{list}");
    assert_eq!((touched[0].new_files, touched[0].lines, touched[0].files), (1, 2, 2));
}

#[test]
fn what_the_table_gets_wrong_is_said() {
    for (row, expected) in [
        ("`a/mod.rs`: `use x;`", "a/mod.rs has nothing like `use old_one;`"),
        ("`a/none.rs`: `mod x;`", "a/none.rs does not exist"),
        ("`mod x;`", "`mod x;` goes into no file"),
        ("`a/mod.rs`: `Other { x }`", "nothing like `Other { old_one }`"),
    ] {
        let error = follow_all(row).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let tree = Tree::of(&[(MAP, "## Where do I put...\n")]);
    let error = with_dummies(&tree).unwrap_err().to_string();
    assert!(error.contains("no row for a mechanism"), "{error}");
}

#[test]
fn every_row_of_the_map_can_be_followed() {
    let tree = Tree::read(&repository_root()).unwrap();
    let (changed, touched) = with_dummies(&tree).unwrap();
    assert!(touched.len() >= KINDS.len() && changed.len() >= KINDS.len());
}
