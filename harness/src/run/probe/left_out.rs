//! Probes that are left out on purpose, with the reason.

/// A probe that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub name: &'static str,
    /// Its question.
    pub summary: &'static str,
    /// Why it is left out.
    pub reason: &'static str,
}

/// Every one.
pub const LEFT_OUT: &[LeftOut] = &[LeftOut {
    name: "static-program",
    summary: "does a statically linked program get past the limits of a preloaded library?",
    reason: "a static program of gcc (glibc, -static and -static-pie, tried) crashes when it loads \
             libcuda, which needs the shared C library, so a row would describe the program and \
             not the limit; `escape` finds the same functions past the library, by dlvsym and \
             without the preload",
}];
