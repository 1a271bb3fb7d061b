//! The task runner: house rules, formatting and generated files.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
#![expect(clippy::disallowed_methods, reason = "no part of the product")]

mod dummies;
mod fmt;
mod functions;
mod imports;
mod package;
mod ptx;
mod scan;
mod symbols;
mod text;
mod tidy;
mod torture;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::tree::{Tree, repository_root};
use tree::CiError;

/// Checks and generators for this repository.
#[derive(Debug, Parser)]
#[command(name = "gpubench-ci")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check the house rules on every tracked file.
    Tidy,
    /// Update the numbers in ci/long.txt, ci/circles.txt and ci/lines.txt.
    Lists,
    /// Print figures of the code: lines, long files, import circles, functions without a caller.
    Figures {
        /// Name each long file, circle and uncalled function.
        #[arg(long)]
        all: bool,
        /// Repository root of another checkout.
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Add a dummy entry of each kind by the table of harness/ARCHITECTURE.md, and compile.
    Dummies,
    /// Check that rustfmt would change no tracked file.
    Fmt,
    /// Compile the device code to PTX and assemble it for every target.
    Ptx {
        /// Fail if the checked-in PTX differs, and write nothing.
        #[arg(long)]
        check: bool,
    },
    /// Kill runs on virtual devices at random instants, and check that nothing of them is left.
    Torture {
        /// How long; a case that has begun is completed.
        #[arg(long, default_value_t = 1)]
        minutes: u64,
        /// Seed of the first case; each later one has the next number.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The program under test.
        #[arg(long, default_value = "target/release/gpubench")]
        binary: PathBuf,
        /// Instead of kills: damage this many records, each read by a verb.
        #[arg(long, default_value_t = 0)]
        records: u64,
        /// Instead of kills: damage this many files and command lines of users.
        #[arg(long, default_value_t = 0)]
        inputs: u64,
    },
    /// List the symbols of a driver library from C headers and from bindings.
    Symbols {
        /// Prefix of the symbols: cu or nvml.
        #[arg(long)]
        prefix: String,
        /// File of the list.
        #[arg(long)]
        out: PathBuf,
        /// Headers (*.h), and bindings in Rust, Cython (*.pxd) or Python.
        #[arg(required = true)]
        sources: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<String, CiError> {
    let root = repository_root();
    match task {
        Task::Tidy => tidy(&Tree::read(&root)?),
        Task::Lists => {
            for (path, text) in tidy::lists::lists(&Tree::read(&root)?) {
                std::fs::write(root.join(path), text)
                    .map_err(|source| CiError::Write { path: path.to_owned(), source })?;
            }
            Ok("the lists have the numbers of the tree; review the difference".to_owned())
        }
        Task::Figures { all, root: other } => {
            let tree = Tree::read(other.as_deref().unwrap_or(&root))?;
            Ok(package::table(&tree, all))
        }
        Task::Dummies => dummies::run(&root),
        Task::Fmt => fmt::fmt(&root).map(|()| "every file is formatted".to_owned()),
        Task::Ptx { check } => ptx::run(check)
            .map(|()| "the PTX matches its sources".to_owned())
            .map_err(CiError::Found),
        Task::Torture { minutes, seed, binary, records: 0, inputs: 0 } => {
            torture::run(&root.join(binary), &root, minutes, seed)
        }
        Task::Torture { seed, binary, records, inputs, .. } => {
            torture::damaged(&torture::Campaign {
                binary: root.join(binary),
                root,
                seed,
                records,
                inputs,
            })
        }
        Task::Symbols { prefix, out, sources } => {
            let count = symbols::run(&prefix, &sources, &out)?;
            Ok(format!("{}: {count} symbols", out.display()))
        }
    }
}

fn tidy(tree: &Tree) -> Result<String, CiError> {
    let findings = tidy::check(tree);
    let mut last = "";
    for (rule, finding) in &findings {
        if rule.name != last {
            eprintln!("{}: {}", rule.name, rule.demand);
            last = rule.name;
        }
        eprintln!("  {finding}");
    }
    let files = tree.files().count();
    if findings.is_empty() {
        let rules = tidy::RULES.len();
        return Ok(format!("{files} files keep {rules} house rules"));
    }
    let count = findings.len();
    Err(CiError::Found(format!("{count} findings in {files} files: see the lines above")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn findings_fail_the_task() {
        let error = tidy(&Tree::of(&[("a.rs", "fn a() {}")])).unwrap_err();
        assert_eq!(error.to_string(), "2 findings in 1 files: see the lines above");
        assert!(tidy(&Tree::of(&[("a.md", "text")])).is_ok());
    }
}
