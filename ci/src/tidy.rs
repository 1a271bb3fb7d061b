//! The house rules: each is an entry here, a function in a file of this module, and a test.
//!
//! A rule is a pure function of the tracked files. Exceptions are in `ci/*.txt` with their reasons.
//! An exception that is not needed is a finding too, so the lists can only shrink.

mod contracts;
mod crates;
mod documents;
mod figures;
mod flow;
pub mod lists;
mod messages;
mod reach;
mod text;
mod words;

use std::fmt;

use crate::tree::Tree;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A rule: its name, what it demands, and the check.
pub struct Rule {
    /// Short name, as printed before each finding.
    pub name: &'static str,
    pub demand: &'static str,
    pub check: fn(&Tree) -> Vec<Finding>,
}

/// Every rule, in the order in which findings are printed.
pub const RULES: &[Rule] = &[
    Rule {
        name: "module-doc",
        demand: "every Rust file starts with a //! comment that describes it",
        check: text::module_doc,
    },
    Rule { name: "columns", demand: "source lines have at most 100 columns", check: text::columns },
    Rule { name: "marks", demand: "no marks of unfinished work", check: text::marks },
    Rule {
        name: "machine-path",
        demand: "no absolute path of a particular machine",
        check: text::machine_paths,
    },
    Rule {
        name: "registry-host",
        demand: "no package registry by host name outside lock files",
        check: text::registry_hosts,
    },
    Rule {
        name: "retired-word",
        demand: "no word of ci/retired-words.txt, in names or in prose",
        check: words::retired,
    },
    Rule {
        name: "file-length",
        demand: "a Rust file has at most 500 lines, or the number in ci/long.txt",
        check: lists::file_length,
    },
    Rule {
        name: "package-lines",
        demand: "the packages of ci/lines.txt grow only with a reason",
        check: lists::package_lines,
    },
    Rule {
        name: "dead-file",
        demand: "every Rust file is a target or declared by a module",
        check: reach::dead_files,
    },
    Rule {
        name: "statistics",
        demand: "a public function of the statistics has a product caller",
        check: figures::statistics,
    },
    Rule {
        name: "flow",
        demand: "rooms of a package use only rooms to their left",
        check: flow::one_direction,
    },
    Rule {
        name: "figures",
        demand: "only gate makes figures of a cell, and only figures combines them",
        check: figures::made_once,
    },
    Rule {
        name: "coordinator",
        demand: "the coordinator calls no function of the driver layer",
        check: reach::coordinator,
    },
    Rule {
        name: "planted",
        demand: "only the virtual GPU and the listing of doctor read planted defects",
        check: figures::unread,
    },
    Rule { name: "pure", demand: "plan, gate, figures and score do no I/O", check: reach::pure },
    Rule {
        name: "opens",
        demand: "a user's files are opened by the one reader, others as ci/opens.txt says",
        check: reach::opens,
    },
    Rule {
        name: "record-alone",
        demand: "gates and scores use the record and no catalogue",
        check: flow::scores_need_no_catalogue,
    },
    Rule {
        name: "import-circle",
        demand: "at most three files of a package import each other, or as ci/circles.txt says",
        check: lists::import_circles,
    },
    Rule {
        name: "crates",
        demand: "packages depend only on their allowed packages",
        check: crates::dependencies,
    },
    Rule {
        name: "document-size",
        demand: "the README has at most 150 lines, the glossary 40 entries",
        check: documents::sizes,
    },
    Rule {
        name: "links",
        demand: "links of documents and paths of the map exist",
        check: documents::links,
    },
    Rule {
        name: "messages",
        demand: "every text of an error and a waiver is explained in the book",
        check: messages::explained,
    },
    Rule {
        name: "contracts",
        demand: "what is used of drivers, commands and the system has a row in CONTRACTS.md",
        check: contracts::rows,
    },
    Rule {
        name: "invariants",
        demand: "each invariant of the map names its test or rule",
        check: documents::invariants,
    },
];

pub fn check(tree: &Tree) -> Vec<(&'static Rule, Finding)> {
    let findings_of = |rule: &'static Rule| {
        let named = move |finding| (rule, finding);
        (rule.check)(tree).into_iter().map(named)
    };
    RULES.iter().flat_map(findings_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::repository_root;

    #[test]
    fn the_tree_keeps_the_house_rules() {
        let tree = Tree::read(&repository_root()).unwrap();
        let lines: Vec<String> = check(&tree)
            .iter()
            .map(|(rule, finding)| format!("{finding} [{}]", rule.name))
            .collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn rules_have_unique_names_and_a_demand() {
        for (index, rule) in RULES.iter().enumerate() {
            assert!(!rule.demand.is_empty(), "{}", rule.name);
            let mut others = RULES.iter().skip(index + 1);
            assert!(others.all(|other| other.name != rule.name));
        }
    }
}
