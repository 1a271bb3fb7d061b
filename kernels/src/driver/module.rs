//! Modules from PTX text.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Arc;

use super::api::{Api, Handle};
use super::codes;
use super::context::Context;
use super::error::DriverError;

/// Bytes for each log of the JIT compiler.
const LOG_BYTES: usize = 8 * 1024;

/// Options of `cuModuleLoadDataEx` (`CUjit_option` of cuda.h).
const INFO_LOG: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

#[derive(Debug)]
pub(super) struct Inner {
    context: Context,
    pub(super) handle: Handle,
    pub(super) name: String,
    pub(super) ptx: String,
    jit_log: String,
}

// SAFETY: any thread may use module and function handles (CUDA driver API, "Thread safety"); the
// rest is plain data.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A module loaded into a context; clones share it.
#[derive(Debug, Clone)]
pub struct Module(pub(super) Arc<Inner>);

impl Module {
    /// Compiles and loads PTX text; `name` appears in errors only.
    pub fn load(context: &Context, name: &str, ptx: &str) -> Result<Self, DriverError> {
        let text = CString::new(ptx).map_err(|_| DriverError::NulByte { what: "the PTX" })?;
        let mut info = vec![0_u8; LOG_BYTES];
        let mut errors = vec![0_u8; LOG_BYTES];
        let mut options = [INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES];
        // One byte is reserved, so that a NUL always ends the log.
        let size = std::ptr::without_provenance_mut::<c_void>(LOG_BYTES - 1);
        let mut values = [info.as_mut_ptr().cast(), size, errors.as_mut_ptr().cast(), size];
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: four options with four values of the kinds that cuda.h names; the text ends in
        // NUL; the logs outlive the call.
        let outcome = unsafe {
            context.api().module_load_data_ex(
                &raw mut handle,
                text.as_ptr().cast(),
                4,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match outcome {
            Ok(()) => Ok(Self(Arc::new(Inner {
                context: context.clone(),
                handle,
                name: name.to_owned(),
                ptx: ptx.to_owned(),
                jit_log: log_text(&info),
            }))),
            Err(DriverError::Call { code, .. }) => Err(DriverError::Module {
                module: name.to_owned(),
                code,
                name: codes::name(code),
                log: Some(log_text(&errors)).filter(|l| !l.is_empty()).unwrap_or("no log".into()),
            }),
            Err(other) => Err(other),
        }
    }

    /// The log of the JIT compiler on one line; often empty.
    pub fn jit_log(&self) -> &str {
        &self.0.jit_log
    }

    pub(super) fn api(&self) -> &'static Api {
        self.0.context.api()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: loaded by this object, released once; functions hold the module alive.
        self.context.release(|api| unsafe { api.module_unload(self.handle) });
    }
}

/// The text of a log up to its NUL, lines joined.
fn log_text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_becomes_one_line() {
        assert_eq!(log_text(b"ptxas error\n  line 2\n\n\0junk"), "ptxas error; line 2");
        assert_eq!(log_text(b"\0"), "");
        assert_eq!(log_text(b"no end"), "");
    }
}
