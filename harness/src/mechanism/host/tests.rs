//! Set-ups that are killed at every step, on a host whose state is a file.

mod identity;
mod kills;
mod mig_restore;

use std::path::Path;

use super::{JournalError, leftovers};

/// The changes that dead runs left on a GPU, in one line; `None` if there are none.
fn unclean(dir: &Path, gpu: &str) -> Result<Option<String>, JournalError> {
    let left = leftovers(dir, Some(gpu), &|left| left.gpu == gpu)?;
    let changes: Vec<String> = left
        .iter()
        .flat_map(|(_, left)| left.changes.iter().map(|(_, change)| change.describe()))
        .collect();
    Ok((!changes.is_empty()).then(|| changes.join("; ")))
}
