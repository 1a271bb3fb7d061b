//! `--sign-key`: reads the key before a run starts, and asks for its password.

use std::io::IsTerminal;
use std::path::Path;

use gpubench_workloads::command::SIGN_PASSWORD;

use crate::error::ExpectedError;
use crate::error::{WRITTEN_BYTES_MAX, read_text};
use crate::judge::signing::SigningKey;

/// Reads a secret key. Its password is that of the environment, else the terminal is asked.
///
/// # Errors
/// When it is no key, or its password is wrong or cannot be asked for.
pub(super) fn read(path: &Path) -> Result<SigningKey, ExpectedError> {
    let text = read_text("secret key", path, WRITTEN_BYTES_MAX)?;
    let name = path.display().to_string();
    SigningKey::of_text(&name, &text, || password(&name))
}

fn password(name: &str) -> Result<String, ExpectedError> {
    match std::env::var(SIGN_PASSWORD) {
        Ok(password) => return Ok(password),
        Err(std::env::VarError::NotPresent) => {}
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(usage(format!("{SIGN_PASSWORD} is not UTF-8")));
        }
    }
    // Without a terminal a question would wait for ever.
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(usage(format!(
            "the secret key {name} has a password, and there is no terminal to ask for it \
             (accepted: the variable {SIGN_PASSWORD}, or a key without a password)"
        )));
    }
    let asked = rpassword::prompt_password(format!("password of the secret key {name}: "));
    asked.map_err(|error| usage(format!("the password cannot be read: {error}")))
}

fn usage(problem: String) -> ExpectedError {
    ExpectedError::Usage { problem, remedy: None }
}
