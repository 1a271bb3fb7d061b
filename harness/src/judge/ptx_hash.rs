//! The identity of the device code of this build.

/// Hash over the PTX of every kernel, in the order of their catalogue.
#[must_use]
pub fn ptx_hash() -> String {
    let kernels = gpubench_kernels::CATALOGUE.iter();
    hash_of(kernels.map(|kernel| [kernel.name, kernel.ptx]))
}

/// Hash over the name and the PTX of these kernels.
fn hash_of<'a>(kernels: impl Iterator<Item = [&'a str; 2]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in kernels.flatten() {
        // With the lengths, moving text from one part to the next changes the hash.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::hash_of;

    #[test]
    fn every_change_of_a_kernel_changes_the_hash() {
        let kernels: [&[[&str; 2]]; 7] = [
            &[["a", "x"], ["b", "yz"]],
            &[["a", "x"], ["b", "yw"]],
            &[["a", "x"], ["c", "yz"]],
            &[["b", "yz"], ["a", "x"]],
            &[["a", "xb"], ["", "yz"]],
            &[["a", "x"]],
            &[],
        ];
        let hashes = kernels.map(|of| hash_of(of.iter().copied()));
        assert_eq!(BTreeSet::from(hashes).len(), kernels.len());
    }
}
