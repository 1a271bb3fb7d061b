//! Named servers and their namespaces (protocol version 3).
//!
//! A namespace is a folder with a socket, inside the folder of its server. A process that connects
//! there becomes a client of the server, within the limits of the namespace. The folder of the
//! server is that of its namespace `default`. A change of limits applies to new clients.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::MpsError;
use super::socket::bind;
use gpubench_virtual_gpu_driver::placement::CONTROL_SOCKET;
use gpubench_virtual_gpu_model::mps::ClientRequest;

pub const DEFAULT: &str = "default";

pub struct NamedServer {
    pub name: String,
    pub uid: u32,
    /// Its devices as given in the command; without them all of the daemon's.
    pub devices: Option<String>,
    pub row: u32,
    pub namespaces: Vec<Namespace>,
}

pub struct Namespace {
    pub name: String,
    pub bounds: ClientRequest,
    pub socket: NamespaceSocket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceId {
    pub server: String,
    pub namespace: String,
}

/// A socket where clients of a namespace connect; closed when dropped.
pub struct NamespaceSocket {
    folder: PathBuf,
    closed: Arc<AtomicBool>,
}

impl NamespaceSocket {
    /// Opens a socket in a folder, which is created; `serve` answers each connection. An existing
    /// socket was left by a dead daemon, since the folder belongs to this daemon alone.
    pub fn open(
        folder: &Path,
        serve: impl Fn(UnixStream) + Send + Sync + 'static,
    ) -> Result<Self, MpsError> {
        std::fs::create_dir_all(folder).map_err(MpsError::io(folder))?;
        let listener = bind(&folder.join(CONTROL_SOCKET))?;
        let socket = Self { folder: folder.to_path_buf(), closed: Arc::default() };
        let (serve, closed) = (Arc::new(serve), Arc::clone(&socket.closed));
        let accept = move || {
            for stream in listener.incoming().flatten() {
                if closed.load(Ordering::Acquire) {
                    return;
                }
                let serve = Arc::clone(&serve);
                let name = std::thread::Builder::new().name("answer".to_owned());
                // If the thread cannot be started, the connection closes without an answer.
                let _ = name.spawn(move || serve(stream));
            }
        };
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(accept)
            .map_err(MpsError::io(folder))?;
        Ok(socket)
    }

    /// Its folder, which clients name as pipe directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for NamespaceSocket {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        let socket = self.folder.join(CONTROL_SOCKET);
        // The connection wakes the accepting thread. Files that cannot be removed go with the
        // daemon's folder.
        let _ = UnixStream::connect(&socket);
        let _ = std::fs::remove_file(&socket);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Checks the name of a server or a namespace.
pub fn valid(name: &str) -> Result<(), MpsError> {
    /// Longest name (MPS documentation, "CLI Command Structure").
    const LONGEST: usize = 64;
    let is_one = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_one) {
        return Ok(());
    }
    let accepted = "lowercase letters, digits and underscores";
    Err(MpsError::Refused(format!(
        "{name:?} is not a name: accepted are up to {LONGEST} {accepted}"
    )))
}
