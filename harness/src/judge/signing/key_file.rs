//! The file of a secret key of minisign, with a password or without.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_compact::SecretKey;

use super::SigningKey;
use super::scrypt::{Cost, scrypt};
use crate::error::ExpectedError;

const ALGORITHM: &[u8; 2] = b"Ed";
const SCRYPT: &[u8; 2] = b"Sc";
const NO_PASSWORD: &[u8; 2] = b"\0\0";
const CHECKSUM: &[u8; 2] = b"B2";
const BYTES: usize = 158;
/// Key id, secret key and checksum: what a password protects.
const PROTECTED: usize = 104;
/// A key asks for as much memory as its maker set; minisign sets 1 GiB.
const MEMORY_MAX: u64 = 1 << 31;

/// A secret key as it was read.
pub enum KeyFile {
    /// It has no password.
    Open(SigningKey),
    /// It has a password.
    Locked(LockedKey),
}

/// A secret key that needs its password.
#[derive(Debug, Clone)]
pub struct LockedKey {
    name: String,
    salt: [u8; 32],
    cost: Cost,
    protected: [u8; PROTECTED],
}

impl KeyFile {
    /// Reads the text of a key file.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExpectedError> {
        let line = text.lines().nth(1).unwrap_or_default().trim();
        let bytes: [u8; BYTES] = STANDARD
            .decode(line)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| no_key(name))?;
        let part = |at: usize| [bytes[at], bytes[at + 1]];
        if part(0) != *ALGORITHM || part(4) != *CHECKSUM {
            return Err(no_key(name));
        }
        let mut protected = [0; PROTECTED];
        protected.copy_from_slice(&bytes[BYTES - PROTECTED..]);
        if part(2) == *NO_PASSWORD {
            return open(&protected).map(Self::Open).ok_or_else(|| no_key(name));
        }
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let cost = Cost::of_limits(number(38), number(46));
        if part(2) != *SCRYPT || cost.bytes() > MEMORY_MAX {
            return Err(no_key(name));
        }
        let mut salt = [0; 32];
        salt.copy_from_slice(&bytes[6..38]);
        Ok(Self::Locked(LockedKey {
            name: name.to_owned(),
            salt,
            cost,
            protected,
        }))
    }
}

impl LockedKey {
    /// The key, by its password.
    ///
    /// # Errors
    /// When the password is wrong.
    pub fn unlock(self, password: &str) -> Result<SigningKey, ExpectedError> {
        let mut stream = [0; PROTECTED];
        scrypt(password.as_bytes(), &self.salt, self.cost, &mut stream);
        let mut bytes = self.protected;
        for (byte, mask) in bytes.iter_mut().zip(stream) {
            *byte ^= mask;
        }
        open(&bytes).ok_or_else(|| ExpectedError::Usage {
            problem: format!("the password of the secret key {} is wrong", self.name),
            remedy: None,
        })
    }
}

/// The key in these bytes; `None` where their checksum is another one.
fn open(bytes: &[u8; PROTECTED]) -> Option<SigningKey> {
    let (id, rest) = bytes.split_at(8);
    let (secret, checksum) = rest.split_at(64);
    if checksum_of(id, secret) != checksum {
        return None;
    }
    Some(SigningKey {
        id: id.try_into().ok()?,
        secret: SecretKey::from_slice(secret).ok()?,
    })
}

fn checksum_of(id: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut hash = blake2b_simd::Params::new().hash_length(32).to_state();
    hash.update(ALGORITHM).update(id).update(secret);
    hash.finalize().as_bytes().to_vec()
}

fn no_key(name: &str) -> ExpectedError {
    ExpectedError::Usage {
        problem: format!(
            "{name} is no secret key (accepted: a file of minisign, as minisign -G writes it)"
        ),
        remedy: None,
    }
}

#[cfg(test)]
impl KeyFile {
    /// The text of a key file. An empty password means none.
    pub(super) fn write_for_tests(key: &SigningKey, password: &str, salt: [u8; 32]) -> String {
        const LIMITS: [u64; 2] = [1 << 16, 1 << 20];
        let secret = key.secret.as_ref();
        let mut protected = [&key.id[..], secret, &checksum_of(&key.id, secret)].concat();
        let mut kdf = NO_PASSWORD;
        if !password.is_empty() {
            kdf = SCRYPT;
            let mut stream = [0; PROTECTED];
            let cost = Cost::of_limits(LIMITS[0], LIMITS[1]);
            scrypt(password.as_bytes(), &salt, cost, &mut stream);
            let masked = protected.iter_mut().zip(stream);
            masked.for_each(|(byte, mask)| *byte ^= mask);
        }
        let limits = LIMITS.map(u64::to_le_bytes).concat();
        let bytes = [&ALGORITHM[..], kdf, CHECKSUM, &salt, &limits, &protected].concat();
        format!("untrusted comment: for tests\n{}\n", STANDARD.encode(bytes))
    }
}
