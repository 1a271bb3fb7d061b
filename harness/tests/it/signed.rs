//! Signed records: `matrix --sign-key`, `report --verify --public-key`, and what they refuse. The
//! keys in `data/signing` were made by the `minisign` crate, for these tests alone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::refused_runs::is_one_line;
use crate::support::{Error, Finished, Lab, TestResult, finish};

const PASSWORD: &str = "GPUBENCH_SIGN_PASSWORD";
const SIGNATURE: &str = "checksums.b3.minisig";

fn key(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data/signing");
    folder.join(name).display().to_string()
}

fn signed(name: &str, password: Option<&str>) -> Result<(Lab, Finished), Error> {
    let lab = Lab::on("turing")?;
    let more = ["--mechanism", "time-slicing", "--sign-key", &key(name)];
    let mut command = lab.matrix("out", &more);
    command.env_remove(PASSWORD);
    command.envs(password.map(|password| (PASSWORD, password)));
    let ended = finish(command)?;
    Ok((lab, ended))
}

fn verify(lab: &Lab, public: &str) -> Result<Finished, Error> {
    let public = key(public);
    finish(lab.gpubench(["report", "out", "--verify", "--public-key", &public]))
}

/// Changes one byte of a file.
fn flip(path: &Path, at: usize) -> TestResult {
    let mut bytes = std::fs::read(path)?;
    bytes[at] ^= 1;
    Ok(std::fs::write(path, bytes)?)
}

fn refused(lab: &Lab, problem: &str) -> TestResult {
    let ended = verify(lab, "open.pub")?.ended_with(4)?;
    assert!(ended.stdout.contains(problem), "{problem}: {}", ended.stdout);
    Ok(())
}

#[test]
fn a_signature_holds_until_one_byte_changes() -> TestResult {
    let (lab, ended) = signed("open.key", None)?;
    ended.ended_with(0)?;
    let good = verify(&lab, "open.pub")?.ended_with(0)?;
    assert!(good.stdout.contains("signed by key A919415F7C1322D4"), "{}", good.stdout);
    let wrong = verify(&lab, "locked.pub")?.ended_with(4)?;
    assert!(wrong.stdout.contains("bad signature: another key made it"), "{}", wrong.stdout);
    let unasked = finish(lab.gpubench(["report", "out", "--verify"]))?.ended_with(0)?;
    assert!(unasked.stdout.contains("signed, unchecked (--public-key)"), "{}", unasked.stdout);
    let out = lab.path("out");
    let (samples, list) = (out.join("samples.parquet"), out.join("checksums.b3"));
    // A changed sample; the same with a checksum that fits it; and the signature.
    flip(&samples, 1000)?;
    refused(&lab, "samples.parquet is damaged")?;
    flip(&samples, 1000)?;
    let text = std::fs::read_to_string(&list)?;
    std::fs::write(&list, text.replacen('a', "b", 1))?;
    refused(&lab, "bad signature: checksums.b3 or checksums.b3.minisig was changed")?;
    std::fs::write(&list, &text)?;
    let signature = std::fs::read(out.join(SIGNATURE))?;
    let line = signature.iter().position(|&byte| byte == b'\n').ok_or("no line")?;
    flip(&out.join(SIGNATURE), line + 40)?;
    refused(&lab, "bad signature: ")?;
    std::fs::write(out.join(SIGNATURE), &signature)?;
    verify(&lab, "open.pub")?.ended_with(0)?;
    // A file that nobody signed.
    std::fs::create_dir_all(out.join("cells/0000"))?;
    std::fs::write(out.join("cells/0000/victim.samples"), "")?;
    refused(&lab, "cells/0000/victim.samples is not in checksums.b3")?;
    std::fs::remove_dir_all(out.join("cells"))?;
    std::fs::remove_file(out.join(SIGNATURE))?;
    refused(&lab, "not signed: it has no checksums.b3.minisig")
}

#[test]
fn a_key_with_a_password_is_unlocked_before_the_run_starts() -> TestResult {
    for (password, problem) in [
        (None, "there is no terminal to ask for it (accepted: the variable GPUBENCH_SIGN_PASSWORD"),
        (Some("wrong"), "is wrong"),
    ] {
        let (lab, ended) = signed("locked.key", password)?;
        is_one_line(&ended.ended_with(2)?, problem);
        assert!(!lab.path("out").exists());
    }
    let (lab, ended) = signed("locked.key", Some("correct horse"))?;
    ended.ended_with(0)?;
    verify(&lab, "locked.pub")?.ended_with(0)?;
    // The password is in no file of the record.
    for entry in std::fs::read_dir(lab.path("out"))? {
        let text = String::from_utf8_lossy(&std::fs::read(entry?.path())?).into_owned();
        assert!(!text.contains("correct horse"));
    }
    Ok(())
}

#[test]
fn a_file_that_is_no_key_is_refused_before_anything_starts() -> TestResult {
    let lab = Lab::on("turing")?;
    lab.write("none", "nothing\n")?;
    for (file, problem) in [
        (lab.arg("none"), "is no secret key (accepted: "),
        (key("open.pub"), "is no secret key (accepted: "),
        (lab.arg("absent"), "cannot read secret key"),
    ] {
        let mut command = lab.matrix("out", &["--sign-key", &file]);
        command.env("XDG_CACHE_HOME", lab.path("cache"));
        is_one_line(&finish(command)?.ended_with(2)?, problem);
        assert!(!lab.path("out").exists() && !lab.path("cache").exists(), "{file}");
    }
    let public = lab.arg("none");
    let refused = finish(lab.gpubench(["report", "x", "--verify", "--public-key", &public]))?;
    is_one_line(&refused.ended_with(2)?, "is no public key (accepted: ");
    Ok(())
}

#[test]
fn an_anonymized_copy_is_not_signed() -> TestResult {
    let (lab, ended) = signed("open.key", None)?;
    ended.ended_with(0)?;
    let copied = finish(lab.gpubench(["report", "out", "--anonymize", "copy"]))?.ended_with(0)?;
    assert!(copied.text().contains("the copy is not signed"), "{}", copied.text());
    assert!(!lab.path("copy").join(SIGNATURE).exists());
    Ok(())
}

#[test]
fn the_program_minisign_verifies_a_record_where_it_is_installed() -> TestResult {
    let Some(program) = installed("minisign") else {
        return Ok(());
    };
    let (lab, ended) = signed("open.key", None)?;
    ended.ended_with(0)?;
    let list = lab.arg("out/checksums.b3");
    let status = std::process::Command::new(program)
        .args(["-V", "-p", &key("open.pub"), "-m", &list])
        .status()?;
    assert!(status.success());
    Ok(())
}

/// The path of a program.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |file: &PathBuf| {
        let facts = file.metadata();
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}
