//! Faults that the literature names and that gpubench does not inject, each with the reason.

/// A fault that is not in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// What it would be called.
    pub name: &'static str,
    /// What it would do.
    pub summary: &'static str,
    /// Why it is not held.
    pub reason: &'static str,
}

/// Every one, those that could be held some day first.
pub const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        name: "tensor-memory-leak",
        summary: "ends with tensor memory that it took and never gave back (CUresult 721)",
        reason: "it takes instructions of compute capability 10, and every kernel here is PTX that \
                 devices since 7.0 take",
    },
    LeftOut {
        name: "ecc-error",
        summary: "meets a memory error that cannot be corrected (Xid 48)",
        reason: "no program can bring one about, and the GPU has to be reset after it",
    },
    LeftOut {
        name: "link-error",
        summary: "loses a link to another GPU or to the host (Xids 74 and 79)",
        reason: "no program can bring one about, and the GPU or the host has to be restarted",
    },
    LeftOut {
        name: "gpu-reset",
        summary: "has the GPU reset while others use it",
        reason: "it ends whatever anybody runs on the GPU, and MIG instances with it",
    },
    LeftOut {
        name: "managed-oversubscription",
        summary: "touches more managed memory than the device has",
        reason: "pages that are moved without end can hang the GPU for everybody, and no deadline \
                 in a kernel ends that",
    },
];

#[cfg(test)]
mod tests {
    use super::LEFT_OUT;
    use crate::fault::find;

    #[test]
    fn what_is_left_out_is_told_and_is_not_held() {
        for one in LEFT_OUT {
            assert!(find(one.name).is_none(), "{} is held", one.name);
            assert!(one.summary.len() > 20 && one.reason.len() > 20, "{one:?}");
        }
    }
}
