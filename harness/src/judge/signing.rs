//! Signatures of records, in the format of minisign: who holds a secret key signs `checksums.b3`,
//! the list of every file of a record, and who has the public key checks it on another machine.
//!
//! Ed25519 and BLAKE2b are those of libraries; this room reads and writes the files.

mod key_file;
mod salsa;
mod scrypt;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_compact::SecretKey;
use gpubench_reports::store::{CHECKSUMS_FILE, SIGNATURE_FILE, damaged_or_unlisted};
use minisign_verify::{PublicKey, Signature};

use super::expected;
use crate::error::ExpectedError;
use crate::error::input::{WRITTEN_BYTES_MAX, read_text};
use crate::run::rfc3339_now;
pub use key_file::{KeyFile, LockedKey};

/// Algorithm of a signature over a BLAKE2b hash.
const PREHASHED: &[u8; 2] = b"ED";

/// A secret key that signs records.
pub struct SigningKey {
    id: [u8; 8],
    secret: SecretKey,
}

impl SigningKey {
    /// Signs the list of the files of a finished record.
    ///
    /// # Errors
    /// When the list cannot be read, or the signature cannot be written.
    pub fn sign(&self, dir: &Path) -> Result<(), ExpectedError> {
        let list = dir.join(CHECKSUMS_FILE);
        let bytes =
            std::fs::read(&list).map_err(|error| ExpectedError::from_write(&list, error))?;
        let text = self.signature(&bytes, &rfc3339_now());
        let path = dir.join(SIGNATURE_FILE);
        std::fs::write(&path, text).map_err(|error| ExpectedError::from_write(&path, error))
    }

    /// The text of a signature file.
    fn signature(&self, signed: &[u8], now: &str) -> String {
        let hash = blake2b_simd::blake2b(signed);
        let signature = self.secret.sign(hash.as_bytes(), None);
        let comment = format!("timestamp:{now}\tfile:{CHECKSUMS_FILE}\thashed");
        // The second signature covers the first one and the comment.
        let both = [signature.as_ref(), comment.as_bytes()].concat();
        let global = self.secret.sign(both, None);
        let head = [&PREHASHED[..], &self.id, signature.as_ref()].concat();
        format!(
            "untrusted comment: a gpubench record\n{}\ntrusted comment: {comment}\n{}\n",
            STANDARD.encode(head),
            STANDARD.encode(global.as_ref())
        )
    }
}

/// A public key that checks records.
pub struct VerifyingKey {
    key: PublicKey,
    /// Its id, as minisign prints it.
    pub id: String,
}

/// Reads a public key: a file of minisign, or its second line alone.
///
/// # Errors
/// When it cannot be read, or is no public key.
pub fn public_key(path: &Path) -> Result<VerifyingKey, ExpectedError> {
    let text = read_text("public key", path, WRITTEN_BYTES_MAX)?;
    let lines = text.lines().map(str::trim);
    let line = lines.rev().find(|line| !line.is_empty());
    let found = line.and_then(verifying_key);
    found.ok_or_else(|| ExpectedError::Usage {
        problem: format!(
            "{} is no public key (accepted: a file of minisign, as minisign -G writes it)",
            path.display()
        ),
        remedy: None,
    })
}

/// A public key from its text: algorithm, id and key.
fn verifying_key(text: &str) -> Option<VerifyingKey> {
    let bytes = STANDARD.decode(text).ok()?;
    let id = bytes.get(2..10)?.try_into().ok()?;
    Some(VerifyingKey {
        key: PublicKey::from_base64(text).ok()?,
        id: format!("{:016X}", u64::from_le_bytes(id)),
    })
}

/// What is wrong with the signature of a record, one sentence each; none where it is good.
///
/// # Errors
/// When a file of the record cannot be read.
pub fn problems(dir: &Path, key: &VerifyingKey) -> Result<Vec<String>, ExpectedError> {
    let path = dir.join(SIGNATURE_FILE);
    if path.symlink_metadata().is_err() {
        return Ok(vec![format!("not signed: it has no {SIGNATURE_FILE}")]);
    }
    let bad = |problem: String| Ok(vec![format!("bad signature: {problem}")]);
    let text = match read_text("signature", &path, WRITTEN_BYTES_MAX) {
        Ok(text) => text,
        Err(error) => return bad(error.to_string()),
    };
    let Ok(signature) = Signature::decode(&text) else {
        return bad(format!("{SIGNATURE_FILE} is damaged"));
    };
    let list = dir.join(CHECKSUMS_FILE);
    let Ok(bytes) = std::fs::read(&list) else {
        return bad(format!("{CHECKSUMS_FILE}, which it signs, cannot be read"));
    };
    match key.key.verify(&bytes, &signature, false) {
        Ok(()) => {}
        Err(minisign_verify::Error::UnexpectedKeyId) => {
            return bad("another key made it".to_owned());
        }
        Err(_) => {
            return bad(format!(
                "{CHECKSUMS_FILE} or {SIGNATURE_FILE} was changed after it was signed"
            ));
        }
    }
    let found = damaged_or_unlisted(dir);
    found.map_err(|error| expected::from_store(dir, error))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use minisign_verify::Signature;

    use super::key_file::KeyFile;
    use super::{SigningKey, verifying_key};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn key() -> SigningKey {
        SigningKey {
            id: *b"gpubench",
            secret: ed25519_compact::KeyPair::from_seed([7; 32].into()).sk,
        }
    }

    #[test]
    fn a_signature_holds_for_its_bytes_and_its_comment_alone() -> TestResult {
        let key = key();
        let text = key.signature(b"list", "5");
        let public = [&b"Ed"[..], &key.id, key.secret.public_key().as_ref()].concat();
        let public = verifying_key(&STANDARD.encode(public)).ok_or("no key")?;
        assert_eq!(public.id, "68636E6562757067");
        let verifies = |text: &str, bytes: &[u8]| {
            let signature = Signature::decode(text);
            signature.is_ok_and(|signature| public.key.verify(bytes, &signature, false).is_ok())
        };
        assert!(verifies(&text, b"list"));
        assert!(!verifies(&text, b"lisT"));
        let later = text.replace("timestamp:5", "timestamp:6");
        assert!(!verifies(&later, b"list"));
        Ok(())
    }

    #[test]
    fn a_key_is_written_and_read_with_its_password_and_no_other() -> TestResult {
        let key = key();
        for password in ["", "secret"] {
            let text = KeyFile::write_for_tests(&key, password, [3; 32]);
            let read = KeyFile::parse("key", &text)?;
            let read = match read {
                KeyFile::Open(read) => {
                    assert_eq!(password, "");
                    read
                }
                KeyFile::Locked(locked) => {
                    assert!(locked.clone().unlock("wrong").is_err());
                    locked.unlock(password)?
                }
            };
            assert_eq!(read.secret.as_ref(), key.secret.as_ref());
            assert_eq!(read.id, key.id);
        }
        for damaged in ["", "untrusted comment: x\nRWQ=\n", "x\n!!!\n"] {
            let error = KeyFile::parse("key", damaged).err().ok_or("accepted")?;
            assert_eq!(error.exit_code().code(), 2);
            assert!(
                error.to_string().starts_with("key is no secret key"),
                "{error}"
            );
        }
        Ok(())
    }
}
