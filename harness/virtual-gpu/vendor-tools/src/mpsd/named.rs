//! Servers with names, and the namespaces of each, as the third version of the interface has them.
//!
//! A namespace is a folder with a socket of its own in that of its server; whoever connects there
//! becomes a client of the server, within the namespace's limits. The folder of the server itself
//! is that of its namespace `default`. What a namespace limits binds clients to come.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::MpsdError;
use super::socket::bind;
use gpubench_virtual_gpu_driver::placement::CONTROL_SOCKET;
use gpubench_virtual_gpu_model::mps::Wish;

/// The namespace that every server has.
pub const DEFAULT: &str = "default";

/// One server with a name.
pub struct Named {
    /// Its name.
    pub name: String,
    /// User whose clients it takes.
    pub uid: u32,
    /// Its devices, as they were named; all of the daemon's without.
    pub devices: Option<String>,
    /// Its row.
    pub row: u32,
    /// Its namespaces; the first is the default one.
    pub namespaces: Vec<Namespace>,
}

/// One namespace of a server.
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// What its clients may have at most.
    pub bounds: Wish,
    /// Where they connect.
    pub socket: NamespaceSocket,
}

/// Which namespace of which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceId {
    /// Name of the server.
    pub server: String,
    /// Name of the namespace.
    pub namespace: String,
}

/// A socket at which the clients of a namespace ask for their server; closed when dropped.
pub struct NamespaceSocket {
    folder: PathBuf,
    closed: Arc<AtomicBool>,
}

impl NamespaceSocket {
    /// Opens one in a folder, which is made; `serve` answers each connection. One that stands there
    /// already is that of a daemon that died: this daemon, which is alone in its own folder, knows
    /// of no such server.
    pub fn open(
        folder: &Path,
        serve: impl Fn(UnixStream) + Send + Sync + 'static,
    ) -> Result<Self, MpsdError> {
        std::fs::create_dir_all(folder).map_err(MpsdError::place(folder))?;
        let listener = bind(&folder.join(CONTROL_SOCKET))?;
        let socket = Self {
            folder: folder.to_path_buf(),
            closed: Arc::default(),
        };
        let (serve, closed) = (Arc::new(serve), Arc::clone(&socket.closed));
        let accept = move || {
            for stream in listener.incoming().flatten() {
                if closed.load(Ordering::Acquire) {
                    return;
                }
                let serve = Arc::clone(&serve);
                let name = std::thread::Builder::new().name("answer".to_owned());
                // Without a thread for it the connection is closed unanswered.
                let _ = name.spawn(move || serve(stream));
            }
        };
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(accept)
            .map_err(MpsdError::place(folder))?;
        Ok(socket)
    }

    /// Its folder, by which clients name it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for NamespaceSocket {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        let socket = self.folder.join(CONTROL_SOCKET);
        // Whoever waits at it looks up; what cannot be removed goes with the daemon's folder.
        let _ = UnixStream::connect(&socket);
        let _ = std::fs::remove_file(&socket);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Whether this can be the name of a server or a namespace.
pub fn valid(name: &str) -> Result<(), MpsdError> {
    /// Longest name (MPS documentation, "CLI Command Structure").
    const LONGEST: usize = 64;
    let is_one = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_one) {
        return Ok(());
    }
    let accepted = "lowercase letters, digits and underscores";
    Err(MpsdError::Refused(format!(
        "{name:?} is no name: accepted are up to {LONGEST} {accepted}"
    )))
}
