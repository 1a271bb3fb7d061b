//! The hidden entry of a tenant: the coordinator starts this same binary, so versions cannot
//! drift. It speaks the wire messages over its pipes and parses no command line.

use std::ffi::OsString;
use std::path::Path;

use gpubench_record::ExitCode;

/// First argument of a tenant process.
pub const TENANT_ARG: &str = "__tenant";

/// Serves the coordinator until it says goodbye; `None` if this process is no tenant.
#[must_use]
pub fn run(argv: &[OsString]) -> Option<u8> {
    if argv.get(1)? != TENANT_ARG {
        return None;
    }
    // Some mechanisms share inside a process: its other tenants are on a socket.
    if let (Some(path), Some(count)) = (argv.get(2), argv.get(3)) {
        let count = count.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        if gpubench_workloads::child::serve_beside(Path::new(path), count).is_err() {
            return Some(ExitCode::Internal.code());
        }
    }
    let (stdin, stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let status = gpubench_workloads::child::tenant_main(stdin, stdout);
    Some(u8::try_from(status).unwrap_or(ExitCode::Internal.code()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::run;

    #[test]
    fn only_the_first_argument_makes_a_tenant() {
        for line in [&["gpubench"][..], &["gpubench", "list", "__tenant"], &[]] {
            let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
            assert_eq!(run(&argv), None);
        }
    }
}
