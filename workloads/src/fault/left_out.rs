//! Faults from the literature that gpubench does not inject, each with the reason.

/// A fault that is not in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Why it is not injected.
    pub reason: &'static str,
}

/// Every such fault; those that may be injected one day come first.
pub const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        name: "tensor-memory-leak",
        summary: "ends with tensor memory that it allocated and did not free (CUresult 721)",
        reason: "it takes instructions of compute capability 10, and every kernel here is PTX that \
                 devices since 7.0 take",
    },
    LeftOut {
        name: "ecc-error",
        summary: "meets an uncorrectable memory error (Xid 48)",
        reason: "no program can cause one, and the GPU must be reset after it",
    },
    LeftOut {
        name: "link-error",
        summary: "loses a link to another GPU or to the host (Xids 74 and 79)",
        reason: "no program can cause one, and the GPU or the host must be restarted",
    },
    LeftOut {
        name: "gpu-reset",
        summary: "has the GPU reset while others use it",
        reason: "it ends all work of all processes on the GPU, and destroys MIG instances",
    },
    LeftOut {
        name: "managed-oversubscription",
        summary: "touches more managed memory than the device has",
        reason: "endless page migration can hang the GPU for every process, and no deadline \
                 in a kernel ends that",
    },
];

#[cfg(test)]
mod tests {
    use super::LEFT_OUT;
    use crate::fault::find;

    #[test]
    fn left_out_faults_are_described_and_are_not_in_the_catalogue() {
        for one in LEFT_OUT {
            assert!(find(one.name).is_none(), "{} is held", one.name);
            assert!(one.summary.len() > 20 && one.reason.len() > 20, "{one:?}");
        }
    }
}
