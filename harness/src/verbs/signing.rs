//! Signatures of records, in the format of minisign: a secret key signs `checksums.b3`, the list
//! of every file of a record; the public key checks the signature on another machine.

use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpubench_record::regular_file;
use gpubench_run::rfc3339_now;
use gpubench_store::{CHECKSUMS_FILE, SIGNATURE_FILE, damaged_or_unlisted};
use minisign::{PublicKey, SecretKey, SecretKeyBox, SignatureBox};

use super::verdict;
use crate::error::ExpectedError;
use crate::error::output::write_whole;
use crate::error::{WRITTEN_BYTES_MAX, read_handed, read_text};

const MINISIGN_FILE: &str = "accepted: a file of minisign, as minisign -G writes it";

pub struct SigningKey(SecretKey);

impl SigningKey {
    /// The secret key in a file of minisign. `password` is asked for where it has one.
    pub fn of_text(
        name: &str,
        text: &str,
        password: impl FnOnce() -> Result<String, ExpectedError>,
    ) -> Result<Self, ExpectedError> {
        let key = || SecretKeyBox::from(text.to_owned());
        if let Ok(open) = key().into_unencrypted_secret_key() {
            return Ok(Self(open));
        }
        if let Some(bytes) = bytes_of(text)
            && is_open_without_checksum(&bytes)
            && let Ok(open) = SecretKey::from_bytes(&bytes)
        {
            return Ok(Self(open));
        }
        if !asks_for_password(text) {
            let problem = format!("{name} is no secret key ({MINISIGN_FILE})");
            return Err(ExpectedError::usage(problem, None));
        }
        let unlocked = key().into_secret_key(Some(password()?));
        unlocked.map(Self).map_err(|_| {
            ExpectedError::usage(format!("the password of the secret key {name} is wrong"), None)
        })
    }

    /// Signs the list of the files of a finished record.
    pub fn sign(&self, dir: &Path) -> Result<(), ExpectedError> {
        let list = dir.join(CHECKSUMS_FILE);
        let bytes = regular_file::read(&list, WRITTEN_BYTES_MAX)
            .map_err(|error| ExpectedError::from_write(&list, error))?;
        let comment = format!("timestamp:{}\tfile:{CHECKSUMS_FILE}\thashed", rfc3339_now());
        let signed = minisign::sign(
            None,
            &self.0,
            Cursor::new(bytes),
            Some(&comment),
            Some("a gpubench record"),
        );
        let signed = signed.map_err(|error| {
            ExpectedError::internal(format!("the record cannot be signed: {error}"))
        })?;
        let path = dir.join(SIGNATURE_FILE);
        write_whole(&path, signed.to_string().as_bytes())
    }
}

/// The second line of a file of minisign.
fn bytes_of(text: &str) -> Option<[u8; 158]> {
    let bytes = STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    bytes.try_into().ok()
}

/// `minisign -G -W` leaves the checksum of an unlocked key empty, and reads none.
fn is_open_without_checksum(bytes: &[u8; 158]) -> bool {
    &bytes[..6] == b"Ed\0\0B2" && bytes[126..].iter().all(|byte| *byte == 0)
}

/// Whether the key in this text is locked by a password whose check takes at most 2 GiB: minisign
/// asks for 1 GiB, and a file could ask for any amount.
fn asks_for_password(text: &str) -> bool {
    const MEMORY_MAX: u64 = 1 << 31;
    let Some(bytes) = bytes_of(text) else {
        return false;
    };
    let number =
        |at: usize| bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (operations, memory) = (number(38), number(46));
    &bytes[..6] == b"EdScB2" && memory <= MEMORY_MAX && operations <= MEMORY_MAX
}

/// A public key that checks records.
pub struct VerifyingKey {
    key: PublicKey,
    pub id: String,
}

/// Reads a public key: a file of minisign, or its second line alone.
pub fn public_key(path: &Path) -> Result<VerifyingKey, ExpectedError> {
    let text = read_handed("public key", path)?;
    let lines = text.lines().map(str::trim);
    let line = lines.rev().find(|line| !line.is_empty());
    let found = line.and_then(|line| PublicKey::from_base64(line).ok());
    let key = found.ok_or_else(|| {
        let problem = format!("{} is no public key ({MINISIGN_FILE})", path.display());
        ExpectedError::usage(problem, None)
    })?;
    let id = key.keynum().iter().rev().map(|byte| format!("{byte:02X}"));
    Ok(VerifyingKey { id: id.collect(), key })
}

/// What is wrong with the signature of a record, one sentence each; none where it is good.
/// Fails when a file of the record cannot be read.
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
    let Ok(signature) = SignatureBox::from_string(&text) else {
        return bad(format!("{SIGNATURE_FILE} is damaged"));
    };
    if signature.keynum() != key.key.keynum() {
        return bad("another key made it".to_owned());
    }
    let list = dir.join(CHECKSUMS_FILE);
    let Ok(bytes) = regular_file::read(&list, WRITTEN_BYTES_MAX) else {
        return bad(format!("{CHECKSUMS_FILE}, which it signs, cannot be read"));
    };
    if minisign::verify(&key.key, &signature, Cursor::new(bytes), true, false, false).is_err() {
        return bad(format!(
            "{CHECKSUMS_FILE} or {SIGNATURE_FILE} was changed after it was signed"
        ));
    }
    let found = damaged_or_unlisted(dir);
    found.map_err(|error| verdict::from_store(dir, error))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use minisign::KeyPair;

    use super::SigningKey;
    use crate::error::ExpectedError;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn never() -> Result<String, ExpectedError> {
        Err(ExpectedError::usage("asked for a password", None))
    }

    #[test]
    fn only_a_locked_key_asks_for_its_password() -> TestResult {
        let open = KeyPair::generate_unencrypted_keypair()?;
        let text = open.sk.to_box(None)?.into_string();
        assert!(SigningKey::of_text("key", &text, never).is_ok());
        // As minisign -G -W writes it.
        let mut bytes = super::bytes_of(&text).ok_or("no key")?;
        bytes[126..].fill(0);
        let without = format!("untrusted comment: x\n{}\r\n", STANDARD.encode(bytes));
        assert!(SigningKey::of_text("key", &without, never).is_ok());
        let locked = include_str!("../../tests/it/data/signing/locked.key");
        let refused = SigningKey::of_text("key", locked, never).err().ok_or("accepted")?;
        assert_eq!(refused.to_string(), "asked for a password");
        Ok(())
    }

    #[test]
    fn what_is_no_key_is_refused_without_a_question() -> TestResult {
        let locked = include_str!("../../tests/it/data/signing/locked.key");
        let line = locked.lines().nth(1).ok_or("no key")?;
        // It asks for 2^63 bytes.
        let mut bytes = STANDARD.decode(line)?;
        bytes[53] = 0x80;
        let greedy = format!("x\n{}\n", STANDARD.encode(bytes));
        for damaged in ["", "untrusted comment: x\nRWQ=\n", "x\n!!!\n", &greedy] {
            let error = SigningKey::of_text("key", damaged, never).err().ok_or("accepted")?;
            assert_eq!(error.exit_code().code(), 2);
            let said = error.to_string();
            assert!(said.starts_with("key is no secret key"), "{said}");
        }
        Ok(())
    }
}
