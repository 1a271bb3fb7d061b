//! Sockets at which a daemon listens.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::MpsdError;

/// Listens at a path in the daemon's own folder: a socket that is there is a dead daemon's.
pub fn bind(path: &Path) -> Result<UnixListener, MpsdError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(MpsdError::place(path)(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(MpsdError::place(path))?;
    // Which users are served is the daemon's to say.
    let for_all = Permissions::from_mode(0o666);
    std::fs::set_permissions(path, for_all).map_err(MpsdError::place(path))?;
    Ok(listener)
}
