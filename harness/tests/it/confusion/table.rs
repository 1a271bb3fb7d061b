//! Which victims each aggressor slows.

pub const SM_VICTIMS: &[&str] = &["compute", "fp64", "int", "tensor", "shared", "l1", "issue"];

pub const VICTIMS: &[&str] = &[
    "compute",
    "fp64",
    "int",
    "tensor",
    "shared",
    "l1",
    "issue",
    "stream",
    "l2",
    "tlb",
    "atomic",
    "launch-sync",
    "alloc",
    "pcie",
    "pcie-download",
];

/// An aggressor that runs concurrently with victims.
pub struct Row {
    pub aggressor: &'static str,
    /// Victims of its resource.
    pub slows: &'static [&'static str],
    /// Victims that make little use of it.
    pub little_use: &'static [&'static str],
}

const fn row(
    aggressor: &'static str,
    slows: &'static [&'static str],
    little_use: &'static [&'static str],
) -> Row {
    Row { aggressor, slows, little_use }
}

pub const CONCURRENT: &[Row] = &[
    // The issue victim issues floating-point and integer additions.
    row("fma-hog", &["compute", "issue"], &["int"]),
    // Every kernel needs block slots; kernels that wait for memory need few.
    row("block-slots", SM_VICTIMS, &["stream", "l2", "tlb", "atomic", "pcie", "pcie-download"]),
    row("fp64-hog", &["fp64"], &[]),
    row("tensor-hog", &["tensor"], &["int"]),
    // Every kernel computes loop counters and addresses.
    row(
        "int-hog",
        &["int", "issue"],
        &["compute", "tensor", "shared", "l1", "stream", "l2", "atomic"],
    ),
    // Shared memory and L1 are one memory with one data path.
    row("shared-hog", &["shared", "l1"], &["int", "issue", "atomic"]),
    row("l1-hog", &["shared", "l1"], &["int", "issue", "atomic"]),
    row("issue-hog", &["issue"], &["compute", "int", "shared", "l1", "atomic"]),
    row("launch-flood", &["launch-sync"], &[]),
    row("alloc-storm", &["alloc"], &[]),
    row("context-storm", &["alloc"], &[]),
    row("module-storm", &["alloc"], &[]),
    row("pin-storm", &["alloc"], &[]),
    row("dram-copy", &["stream"], &[]),
    row("dram-read", &["stream"], &["int"]),
    row("dram-write", &["stream"], &["int"]),
    row("tlb-stride", &["tlb"], &[]),
    // DRAM accesses pass through L2, which also executes atomics.
    row("l2-stream", &["l2"], &["int", "stream", "tlb", "atomic"]),
    row("l2-thrash", &["l2"], &["int", "stream", "tlb", "atomic"]),
    row("atomics", &["atomic"], &["int"]),
    // The two directions of the link are separate resources.
    row("pcie-h2d", &["pcie"], &[]),
    row("pcie-d2h", &["pcie-download"], &[]),
    row("pcie-both", &["pcie", "pcie-download"], &[]),
    // Additions and copies; this machine has power for both.
    row("power-virus", &["compute", "issue", "stream"], &["int"]),
    // It calls the driver all the time. Whether memory is left is not a rate.
    row("memory-hog", &["alloc"], &[]),
];
