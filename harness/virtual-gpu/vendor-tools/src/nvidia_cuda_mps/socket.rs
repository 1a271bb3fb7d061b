//! Sockets at which a daemon listens.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::MpsError;

/// Listens at a path in the daemon's own folder: an existing socket was left by a dead daemon.
pub fn bind(path: &Path) -> Result<UnixListener, MpsError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(MpsError::io(path)(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(MpsError::io(path))?;
    // The daemon itself decides which users it serves.
    let for_all = Permissions::from_mode(0o666);
    std::fs::set_permissions(path, for_all).map_err(MpsError::io(path))?;
    Ok(listener)
}
