//! scrypt (RFC 7914), the function that turns the password of a key file into its mask, over HMAC
//! of a library. The crate of that name would add fourteen others.

use hmac_sha256::HMAC;

use super::salsa::mix_block;

/// Bytes of a hash.
const HASH: usize = 32;

/// What a derivation costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Base-2 logarithm of the blocks in memory.
    pub(super) n_log2: u32,
    /// Size of a block in units of 128 bytes.
    pub(super) r: u64,
    /// Independent parts.
    pub(super) p: u64,
}

impl Cost {
    /// The cost that libsodium derives from the limits in a key file.
    pub(super) fn of_limits(operations: u64, memory: u64) -> Self {
        let operations = operations.max(32_768);
        let r = 8;
        let log2_of = |n_max: u64| (1..63).find(|log2| 1_u64 << log2 > n_max / 2).unwrap_or(63);
        if operations < memory / 32 {
            let n_log2 = log2_of(operations / (r * 4));
            return Self { n_log2, r, p: 1 };
        }
        let n_log2 = log2_of(memory / (r * 128));
        let most = ((operations / 4) >> n_log2).min(0x3fff_ffff);
        Self {
            n_log2,
            r,
            p: (most / r).max(1),
        }
    }

    /// Memory that it takes.
    pub(super) fn bytes(self) -> u64 {
        let block = 128 * self.r;
        block.saturating_mul(1_u64.checked_shl(self.n_log2).unwrap_or(u64::MAX))
    }
}

/// Fills `out` from a password.
pub(super) fn scrypt(password: &[u8], salt: &[u8], cost: Cost, out: &mut [u8]) {
    let block = (128 * cost.r) as usize;
    let mut blocks = vec![0; block * cost.p as usize];
    pbkdf2(password, salt, &mut blocks);
    for part in blocks.chunks_exact_mut(block) {
        mix(part, cost.n_log2);
    }
    pbkdf2(password, &blocks, out);
}

/// PBKDF2 of one iteration with HMAC-SHA-256 (RFC 8018).
fn pbkdf2(password: &[u8], salt: &[u8], out: &mut [u8]) {
    for (part, number) in out.chunks_mut(HASH).zip(1_u32..) {
        let mac = HMAC::mac([salt, &number.to_be_bytes()].concat(), password);
        part.copy_from_slice(&mac[..part.len()]);
    }
}

/// scryptROMix: fills memory with blocks, then reads them in an order that depends on them.
fn mix(block: &mut [u8], n_log2: u32) {
    let words = block.len() / 4;
    let mut x: Vec<u32> = block
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let n = 1_usize << n_log2;
    let mut memory = vec![0_u32; n * words];
    let mut spare = vec![0_u32; words];
    for slot in memory.chunks_exact_mut(words) {
        slot.copy_from_slice(&x);
        mix_block(&mut x, &mut spare);
    }
    for _ in 0..n {
        let slot = x[words - 16] as usize & (n - 1);
        let slot = &memory[slot * words..(slot + 1) * words];
        x.iter_mut()
            .zip(slot)
            .for_each(|(word, other)| *word ^= other);
        mix_block(&mut x, &mut spare);
    }
    for (bytes, word) in block.chunks_exact_mut(4).zip(&x) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, scrypt};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 7914, section 12.
    #[test]
    fn the_vectors_of_the_standard() {
        let mut out = [0; 64];
        let cost = |n_log2, r, p| Cost { n_log2, r, p };
        scrypt(b"", b"", cost(4, 1, 1), &mut out);
        assert_eq!(
            hex(&out),
            "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442\
             fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906"
        );
        scrypt(b"password", b"NaCl", cost(10, 8, 16), &mut out);
        assert_eq!(
            hex(&out),
            "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162\
             2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"
        );
    }

    #[test]
    fn the_limits_of_minisign_are_a_gibibyte() {
        let cost = Cost::of_limits(33_554_432, 1_073_741_824);
        assert_eq!((cost.n_log2, cost.r, cost.p), (20, 8, 1));
        assert_eq!(cost.bytes(), 1 << 30);
        assert!(Cost::of_limits(u64::MAX, u64::MAX).bytes() > 1 << 40);
    }
}
