//! The identity of the device code of this build.

/// Hash over the PTX of every kernel, in the order of their catalogue.
#[must_use]
pub fn ptx_hash() -> String {
    let mut hasher = blake3::Hasher::new();
    for kernel in gpubench_kernels::CATALOGUE {
        for part in [kernel.name, kernel.ptx] {
            // With the lengths, moving text from one kernel to the next changes the hash.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::ptx_hash;

    #[test]
    fn the_kernels_have_a_hash() {
        assert_eq!(ptx_hash().len(), 64);
        assert_eq!(ptx_hash(), ptx_hash());
    }
}
