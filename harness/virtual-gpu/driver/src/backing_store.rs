//! The contents of device memory: a sparse file that every process maps whole.
//!
//! Device addresses are offsets in it plus [`BASE`]. The contents of a freed page stay until they
//! are overwritten, as on hardware, unless the machine scrubs.
//!
//! Hardware maps pages to any address, so that scattered free pages make one allocation. Here an
//! allocation lies in one piece, for which the file has [`SPANS`] times as many places as there is
//! memory: amounts are counted, not positions.
#![expect(
    unsafe_code,
    reason = "device memory is a shared mapping that kernels write through raw pointers"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// First device address. Far from anything the host maps, so that confusing the two faults; and
/// aligned as the addresses of an H100 80GB HBM3 were, to a large page and no more, so that a
/// program that assumes more fails here too (driver 580.159.04, 2026-11-22).
pub const BASE: u64 = 0x7000_0020_0000;

/// Pages are mostly written in groups, and one call returns a group with the holes in it.
const PUNCHED_BYTES: u64 = 64 << 20;

/// A mapping of all device memory.
#[derive(Debug)]
pub struct BackingStore {
    base: *mut u8,
    bytes: usize,
    file: File,
}

// SAFETY: the mapping is plain shared bytes; who may touch which of them is decided by the
// allocation table, and unordered accesses are the program's own race, as on hardware.
unsafe impl Send for BackingStore {}
// SAFETY: as above.
unsafe impl Sync for BackingStore {}

impl BackingStore {
    /// Maps the memory file of a device, which has this length. A link to the descriptor of a
    /// process names another file in another namespace of process ids.
    pub fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() != bytes {
            return Err(io::Error::other("another file, or of another length"));
        }
        let bytes = bytes as usize;
        // SAFETY: a fresh shared mapping of an open file, checked below. Without reservation:
        // device memory may exceed the host's.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Kernels touch few pages of a buffer, far apart: reading ahead would fill holes with pages
        // that nobody asks for. A refusal is harmless.
        // SAFETY: the mapping that was just made.
        unsafe { libc::madvise(base, bytes, libc::MADV_RANDOM) };
        Ok(Self { base: base.cast(), bytes, file })
    }

    /// Whether an address lies in the range of device memory, allocated or not.
    pub fn holds(&self, address: u64) -> bool {
        (BASE..BASE + self.bytes as u64).contains(&address)
    }

    /// Host address of an offset in device memory, if `bytes` from there lie within it.
    pub fn pointer(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        if end > self.bytes as u64 {
            return None;
        }
        // SAFETY: within the mapping, checked above.
        Some(unsafe { self.base.add(offset as usize) })
    }

    /// A copy of a range; none if it does not lie within device memory.
    pub fn read(&self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let from = self.pointer(offset, bytes)?;
        let mut out = vec![0; bytes as usize];
        // SAFETY: `pointer` vouches for so many bytes of the mapping; `out` is new.
        unsafe { from.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Some(out)
    }

    /// Overwrites a range; none if it does not lie within device memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let to = self.pointer(offset, bytes.len() as u64)?;
        // SAFETY: as in `read`; callers hold no reference into the mapping.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(())
    }

    /// Overwrites a range by a write to the file: through the mapping each page would fault. What
    /// the file does not take, because its disk is full or `from` is invalid, goes through the
    /// mapping, and the process gets the signal for that.
    ///
    /// # Safety
    /// The range must lie within device memory and `from` be readable for as many bytes. Other
    /// threads may change both meanwhile.
    pub unsafe fn write_from(&self, offset: u64, from: *const u8, bytes: usize) {
        let mut done = 0;
        while done < bytes {
            let at = (offset + done as u64) as libc::off_t;
            // SAFETY: the caller vouches for both ranges.
            let wrote = unsafe {
                let rest = from.add(done).cast();
                libc::pwrite(self.file.as_raw_fd(), rest, bytes - done, at)
            };
            match usize::try_from(wrote) {
                Ok(wrote) if wrote > 0 => done += wrote,
                _ => break,
            }
        }
        // SAFETY: as above; the two may overlap.
        unsafe {
            let to = self.base.add(offset as usize + done);
            to.copy_from(from.add(done), bytes - done);
        }
    }

    /// Clears a range by returning its pages to the file system, [`PUNCHED_BYTES`] at a time. Parts
    /// that were never written are skipped: to return them the kernel would walk the page tables of
    /// every process over all of them, which for most of a device's memory takes milliseconds.
    pub fn scrub(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = offset.saturating_add(bytes);
        let mut at = offset;
        while let Some(data) = self.next_data(at)?.filter(|&data| data < end) {
            at = end.min(data + PUNCHED_BYTES);
            self.punch(data, at - data)?;
        }
        Ok(())
    }

    /// The next byte from `at` on that was written; `None` where there is none.
    fn next_data(&self, at: u64) -> io::Result<Option<u64>> {
        let at = at as libc::off_t;
        // SAFETY: plain call on an open descriptor, whose position nothing else uses.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), at, libc::SEEK_DATA) };
        match u64::try_from(found) {
            Ok(found) => Ok(Some(found)),
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
                error => Err(error),
            },
        }
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: plain call on an open descriptor.
        let code = unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset as libc::off_t,
                bytes as libc::off_t,
            )
        };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// A part of device memory that the host sees at an address of its own.
#[derive(Debug)]
pub struct HostView {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: an address and a length; accesses race with kernels, as on hardware.
unsafe impl Send for HostView {}
// SAFETY: as above.
unsafe impl Sync for HostView {}

impl HostView {
    /// Its host address.
    pub fn address(&self) -> u64 {
        self.base as u64
    }
}

impl Drop for HostView {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `BackingStore::view` with this size.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

impl BackingStore {
    /// Maps a part of device memory once more, for the host. Both must be whole pages.
    pub fn view(&self, offset: u64, bytes: u64) -> io::Result<HostView> {
        if self.pointer(offset, bytes).is_none() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: a fresh shared mapping of an open file within its length, checked below.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                self.file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = base.cast();
        Ok(HostView { base, bytes: bytes as usize })
    }
}

impl Drop for BackingStore {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this size.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::BackingStore;

    #[test]
    fn a_scrubbed_range_reads_as_zero_and_the_rest_stays() {
        const PAGE: u64 = 4096;
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 * PAGE).unwrap();
        let memory = BackingStore::open(file.path(), 64 * PAGE).unwrap();
        assert!(BackingStore::open(file.path(), PAGE).is_err());
        // Written pages before, at the start, in the middle, at the end and behind the range.
        let written = [7, 8, 20, 39, 40];
        for page in written {
            memory.write(page * PAGE, &[1; PAGE as usize]).unwrap();
        }
        memory.scrub(8 * PAGE, 32 * PAGE).unwrap();
        for page in 0..64 {
            let left = u8::from(page == 7 || page == 40);
            let read = memory.read(page * PAGE, PAGE).unwrap();
            assert!(read.iter().all(|&byte| byte == left), "page {page}");
        }
        // Nothing is written there: nothing to do.
        memory.scrub(41 * PAGE, 23 * PAGE).unwrap();
    }

    #[test]
    fn what_the_file_refuses_goes_through_the_mapping() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 16).unwrap();
        let mut memory = BackingStore::open(file.path(), 1 << 16).unwrap();
        let from: Vec<u8> = (0..9000).map(|at| (at % 251) as u8).collect();
        let written = |memory: &BackingStore, offset| {
            // SAFETY: both ranges are as long as that.
            unsafe { memory.write_from(offset, from.as_ptr(), from.len()) };
            assert_eq!(memory.read(offset, 9000).as_ref(), Some(&from));
        };
        written(&memory, 100);
        memory.file = std::fs::File::open(file.path()).unwrap();
        written(&memory, 20_000);
    }
}
