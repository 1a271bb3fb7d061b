//! Memory that is freed stays with the process. Decoded columns are some megabytes each, which
//! glibc maps afresh for every allocation otherwise: the kernel then clears their pages again and
//! again, for as long as the decoding takes.
#![expect(unsafe_code, reason = "glibc's mallopt has no safe form")]

use libc::{M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, c_int, mallopt};

/// Allocations from here on are mapped; glibc accepts no more.
const MAPPED_BYTES: c_int = 32 << 20;
/// Free memory at the end of a heap from which on it is given back.
const KEPT_BYTES: c_int = 1 << 30;

/// Applies to the whole process, for verbs that read records.
pub(super) fn keep() {
    // SAFETY: no memory is passed, and the parameters are constants of glibc. A refused one leaves
    // the default, which is slower only.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}
