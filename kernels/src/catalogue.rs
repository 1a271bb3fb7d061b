//! Every kernel: its CUDA source, its PTX and its check, one line each.

use crate::kernel;
use crate::kernel_set::KernelSet;
use crate::verify::VerifyError;

#[derive(Debug, Clone, Copy)]
pub struct KernelInfo {
    pub kernel: Kernel,
    /// Its name, which is also that of both files and of the entry.
    pub name: &'static str,
    /// `cuda/<name>.cu`.
    pub source: &'static str,
    /// `ptx/<name>.ptx`.
    pub ptx: &'static str,
    pub verify: fn(&KernelSet) -> Result<(), VerifyError>,
}

impl KernelInfo {
    pub fn summary(&self) -> &'static str {
        self.header(self.name)
    }

    /// The unit of the GPU that it saturates, or "none" and its purpose.
    pub fn unit(&self) -> &'static str {
        self.header("Unit")
    }

    /// The hardware counter that shows this.
    pub fn counter(&self) -> &'static str {
        self.header("Counter")
    }

    /// The rest of the header line `// key: ...`, empty where there is none.
    fn header(&self, key: &str) -> &'static str {
        self.source
            .lines()
            .take_while(|line| line.starts_with("//"))
            .filter_map(|line| line.strip_prefix("// ")?.strip_prefix(key)?.strip_prefix(": "))
            .next()
            .unwrap_or("")
    }
}

macro_rules! catalogue {
    ( $( $variant:ident $module:ident => $verify:path, )* ) => {
        /// A kernel of the crate; `info` says what it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kernel {
            $(
                #[doc = concat!("The kernel of `cuda/", stringify!($module), ".cu`.")]
                $variant,
            )*
        }

        /// All kernels, in the order of `Kernel`.
        pub const CATALOGUE: &[KernelInfo] = &[ $( KernelInfo {
            kernel: Kernel::$variant,
            name: stringify!($module),
            source: include_str!(concat!("../cuda/", stringify!($module), ".cu")),
            ptx: include_str!(concat!("../ptx/", stringify!($module), ".ptx")),
            verify: $verify,
        }, )* ];
    };
}

catalogue! {
    Empty empty => kernel::timing::verify_empty,
    Spin spin => kernel::timing::verify_spin,
    StreamRead stream_read => kernel::streams::verify_stream_read,
    StreamWrite stream_write => kernel::streams::verify_stream_write,
    StreamCopy stream_copy => kernel::streams::verify_stream_copy,
    Fp32Chain fp32_chain => kernel::arithmetic::verify_fp32_chain,
    L2Chase l2_chase => kernel::on_chip::verify_l2_chase,
    L2Stream l2_stream => kernel::on_chip::verify_l2_stream,
    BlockTrace block_trace => kernel::timing::verify_block_trace,
    PatternFill pattern_fill => kernel::memory::verify_pattern_fill,
    PatternCheck pattern_check => kernel::memory::verify_pattern_check,
    Fp64Chain fp64_chain => kernel::arithmetic::verify_fp64_chain,
    IntChain int_chain => kernel::arithmetic::verify_int_chain,
    IssueMix issue_mix => kernel::arithmetic::verify_issue_mix,
    TensorChain tensor_chain => kernel::arithmetic::verify_tensor_chain,
    BlockSlots block_slots => kernel::timing::verify_block_slots,
    SharedStream shared_stream => kernel::on_chip::verify_shared_stream,
    L1Stream l1_stream => kernel::on_chip::verify_l1_stream,
    TlbStride tlb_stride => kernel::memory::verify_tlb_stride,
    AtomicAdd atomic_add => kernel::memory::verify_atomic_add,
    Tick tick => kernel::timing::verify_tick,
    Matvec matvec => kernel::inference::verify_matvec,
    Matmul matmul => kernel::inference::verify_matmul,
    Rmsnorm rmsnorm => kernel::inference::verify_rmsnorm,
    Softmax softmax => kernel::inference::verify_softmax,
    Digest digest => kernel::digest::verify_digest,
    PageMark page_mark => kernel::memory::verify_page_mark,
    PageScan page_scan => kernel::memory::verify_page_scan,
    FaultIllegalStore fault_illegal_store => kernel::faults::verify_fault_illegal_store,
    FaultMisaligned fault_misaligned => kernel::faults::verify_fault_misaligned,
    FaultTrap fault_trap => kernel::faults::verify_fault_trap,
    FaultAssert fault_assert => kernel::faults::verify_fault_assert,
    FaultStack fault_stack => kernel::faults::verify_fault_stack,
    FaultBadPc fault_bad_pc => kernel::faults::verify_fault_bad_pc,
    FaultBadSpace fault_bad_space => kernel::faults::verify_fault_bad_space,
    FaultSharedOob fault_shared_oob => kernel::faults::verify_fault_shared_oob,
    FaultPrintf fault_printf => kernel::faults::verify_fault_printf,
    FaultHang fault_hang => kernel::faults::verify_fault_hang,
}

impl Kernel {
    /// Its index in `CATALOGUE`.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its entry in `CATALOGUE`.
    pub const fn info(self) -> &'static KernelInfo {
        &CATALOGUE[self.index()]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::ptx_text::param_bytes;

    #[test]
    fn numbers_and_names_are_unique_and_in_order() {
        for (at, info) in CATALOGUE.iter().enumerate() {
            assert_eq!(info.kernel.index(), at, "{}", info.name);
            assert_eq!(info.kernel.info().name, info.name);
        }
        let names: BTreeSet<_> = CATALOGUE.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
    }

    #[test]
    fn every_header_has_a_summary_a_unit_and_a_counter() {
        for info in CATALOGUE {
            for (key, text) in
                [("name", info.summary()), ("Unit", info.unit()), ("Counter", info.counter())]
            {
                assert!(text.len() > 8, "{}.cu: header line `{key}` is missing", info.name);
            }
            assert!(info.source.lines().all(|line| line.len() <= 100), "{}.cu", info.name);
        }
    }

    #[test]
    fn every_ptx_targets_sm_70_and_has_one_entry() {
        for info in CATALOGUE {
            assert!(info.ptx.contains("\n.version 7.8\n.target sm_70\n"), "{}", info.name);
            assert!(param_bytes(info.ptx, info.name).is_some(), "{}", info.name);
            assert_eq!(info.ptx.matches(".entry").count(), 1, "{}", info.name);
            assert!(!info.ptx.contains('\0'), "{}", info.name);
        }
    }

    #[test]
    fn every_source_and_every_ptx_is_in_the_catalogue() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (folder, extension) in [("cuda", "cu"), ("ptx", "ptx")] {
            let files: BTreeSet<_> = std::fs::read_dir(root.join(folder))
                .expect("the folder is part of the package")
                .map(|entry| entry.expect("readable").file_name().into_string().expect("ASCII"))
                .collect();
            let expected: BTreeSet<_> =
                CATALOGUE.iter().map(|info| format!("{}.{extension}", info.name)).collect();
            assert_eq!(files, expected);
        }
    }

    #[test]
    fn a_missing_header_line_reads_as_empty() {
        let info = KernelInfo { source: "// odd: text\n\n// Unit: too late\n", ..CATALOGUE[0] };
        assert_eq!(info.unit(), "");
        assert_eq!(info.summary(), "");
    }
}
