//! `gpubench files`: the files that come with the program.

use std::path::PathBuf;

use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] = super::man::EXIT_CODES;

/// Pairs of a path in the sources and the bytes, as build.rs found them; empty where the package
/// was built alone.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Writes profiles, machine files, schemas, the book, and files for Kubernetes, Slurm, nightly jobs
/// and dashboards into a folder
///
/// A file that is there is kept, unless --force is given.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// The folder; it is made where it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    if FILES.is_empty() {
        let problem = "this gpubench was built without the files of its sources";
        return Err(ExpectedError::usage(problem, Some("install a package, or build the sources")));
    }
    let (mut written, mut kept) = (0, 0);
    for (name, bytes) in FILES {
        let path = args.dir.join(name);
        let is_there = path.symlink_metadata().is_ok();
        if is_there && !args.force {
            kept += 1;
            continue;
        }
        let folder = path.parent().unwrap_or(&args.dir);
        // A link or a pipe is replaced, and not written through.
        let removed = if is_there { std::fs::remove_file(&path) } else { Ok(()) };
        removed
            .and_then(|()| std::fs::create_dir_all(folder))
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|error| ExpectedError::from_write(&path, error))?;
        written += 1;
    }
    let folder = args.dir.display();
    ui.print_bytes(format!("{written} files in {folder}, {kept} were there\n").as_bytes())?;
    Ok(ExitCode::Done)
}

#[cfg(test)]
mod tests {
    use std::path::{Component, PathBuf};

    use super::FILES;

    /// `a/b/../c` as `a/c`.
    fn plain(path: &std::path::Path) -> PathBuf {
        path.components().fold(PathBuf::new(), |mut plain, part| {
            match part {
                Component::ParentDir => drop(plain.pop()),
                part => plain.push(part),
            }
            plain
        })
    }

    #[test]
    fn links_of_the_book_lead_to_files_that_come_with_it() {
        let pages = FILES
            .iter()
            .filter(|(name, _)| name.starts_with("reports/book/src") && name.ends_with(".md"));
        let is_in = |file: &str, target: &str| {
            file.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut broken = Vec::new();
        for (name, bytes) in pages {
            let folder = std::path::Path::new(name).parent().unwrap_or(std::path::Path::new(""));
            let text = String::from_utf8_lossy(bytes);
            let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let included =
                text.split("{{#include ").skip(1).filter_map(|rest| rest.split('}').next());
            for link in links.chain(included).filter(|link| !link.contains("://")) {
                let link = link.split('#').next().unwrap_or_default();
                let target = plain(&folder.join(link)).display().to_string();
                if !link.is_empty() && !FILES.iter().any(|(file, _)| is_in(file, &target)) {
                    broken.push(format!("{name}: {link}"));
                }
            }
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }
}
