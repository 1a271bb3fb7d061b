//! Which entry point a program of a CUDA version means by a name.
//!
//! A call that has changed is exported in all its forms: the first under its plain name, the next
//! ones with `_v2`, `_v3` and so on.

/// Names with several forms, and the CUDA version in which each form came, as `cudaTypedefs.h` of
/// CUDA 13.5 has them.
#[rustfmt::skip]
const FORMS: &[(&str, &[i32])] = &[
    ("cuArray3DCreate", &[2_000, 3_020]),
    ("cuArray3DGetDescriptor", &[2_000, 3_020]),
    ("cuArrayCreate", &[2_000, 3_020]),
    ("cuArrayGetDescriptor", &[2_000, 3_020]),
    ("cuCtxCreate", &[2_000, 3_020, 11_040, 12_050]),
    ("cuCtxDestroy", &[2_000, 4_000]),
    ("cuCtxGetDevice", &[2_000, 13_000]),
    ("cuCtxPopCurrent", &[2_000, 4_000]),
    ("cuCtxPushCurrent", &[2_000, 4_000]),
    ("cuCtxSynchronize", &[2_000, 13_000]),
    ("cuDeviceGetUuid", &[9_020, 11_040]),
    ("cuDevicePrimaryCtxRelease", &[7_000, 11_000]),
    ("cuDevicePrimaryCtxReset", &[7_000, 11_000]),
    ("cuDevicePrimaryCtxSetFlags", &[7_000, 11_000]),
    ("cuDeviceTotalMem", &[2_000, 3_020]),
    ("cuEventDestroy", &[2_000, 4_000]),
    ("cuEventElapsedTime", &[2_000, 12_080]),
    ("cuGetProcAddress", &[11_030, 12_000]),
    ("cuGraphAddDependencies", &[10_000, 12_030]),
    ("cuGraphAddKernelNode", &[10_000, 12_000]),
    ("cuGraphAddNode", &[12_020, 12_030, 13_040]),
    ("cuGraphExecKernelNodeSetParams", &[10_010, 12_000]),
    ("cuGraphExecUpdate", &[10_020, 12_000]),
    ("cuGraphGetEdges", &[10_000, 12_030]),
    ("cuGraphInstantiate", &[10_000, 11_000]),
    ("cuGraphKernelNodeGetParams", &[10_000, 12_000]),
    ("cuGraphKernelNodeSetParams", &[10_000, 12_000]),
    ("cuGraphNodeGetDependencies", &[10_000, 12_030]),
    ("cuGraphNodeGetDependentNodes", &[10_000, 12_030]),
    ("cuGraphNodeSetParams", &[12_020, 13_040]),
    ("cuGraphRemoveDependencies", &[10_000, 12_030]),
    ("cuGraphicsResourceGetMappedPointer", &[3_000, 3_020]),
    ("cuGraphicsResourceSetMapFlags", &[3_000, 6_050]),
    ("cuIpcOpenMemHandle", &[4_010, 11_000]),
    ("cuLaunchHostFunc", &[10_000, 13_010]),
    ("cuLinkAddData", &[5_050, 6_050]),
    ("cuLinkAddFile", &[5_050, 6_050]),
    ("cuLinkCreate", &[5_050, 6_050]),
    ("cuMemAdvise", &[8_000, 12_020]),
    ("cuMemAlloc", &[2_000, 3_020]),
    ("cuMemAllocHost", &[2_000, 3_020]),
    ("cuMemAllocPitch", &[2_000, 3_020]),
    ("cuMemFree", &[2_000, 3_020]),
    ("cuMemGetAddressRange", &[2_000, 3_020]),
    ("cuMemGetInfo", &[2_000, 3_020]),
    ("cuMemHostGetDevicePointer", &[2_020, 3_020]),
    ("cuMemHostRegister", &[4_000, 6_050]),
    ("cuMemPrefetchAsync", &[8_000, 12_020]),
    ("cuMemcpy2D", &[2_000, 3_020]),
    ("cuMemcpy2DAsync", &[2_000, 3_020]),
    ("cuMemcpy2DUnaligned", &[2_000, 3_020]),
    ("cuMemcpy3D", &[2_000, 3_020]),
    ("cuMemcpy3DAsync", &[2_000, 3_020]),
    ("cuMemcpy3DBatchAsync", &[12_080, 13_000]),
    ("cuMemcpyAtoA", &[2_000, 3_020]),
    ("cuMemcpyAtoD", &[2_000, 3_020]),
    ("cuMemcpyAtoH", &[2_000, 3_020]),
    ("cuMemcpyAtoHAsync", &[2_000, 3_020]),
    ("cuMemcpyBatchAsync", &[12_080, 13_000]),
    ("cuMemcpyDtoA", &[2_000, 3_020]),
    ("cuMemcpyDtoD", &[2_000, 3_020]),
    ("cuMemcpyDtoDAsync", &[3_000, 3_020]),
    ("cuMemcpyDtoH", &[2_000, 3_020]),
    ("cuMemcpyDtoHAsync", &[2_000, 3_020]),
    ("cuMemcpyHtoA", &[2_000, 3_020]),
    ("cuMemcpyHtoAAsync", &[2_000, 3_020]),
    ("cuMemcpyHtoD", &[2_000, 3_020]),
    ("cuMemcpyHtoDAsync", &[2_000, 3_020]),
    ("cuMemsetD16", &[2_000, 3_020]),
    ("cuMemsetD2D16", &[2_000, 3_020]),
    ("cuMemsetD2D32", &[2_000, 3_020]),
    ("cuMemsetD2D8", &[2_000, 3_020]),
    ("cuMemsetD32", &[2_000, 3_020]),
    ("cuMemsetD8", &[2_000, 3_020]),
    ("cuModuleGetGlobal", &[2_000, 3_020]),
    ("cuMulticastBindAddr", &[12_010, 13_010]),
    ("cuMulticastBindMem", &[12_010, 13_010]),
    ("cuStreamBatchMemOp", &[8_000, 11_070]),
    ("cuStreamBeginCapture", &[10_000, 10_010]),
    ("cuStreamDestroy", &[2_000, 4_000]),
    ("cuStreamGetCaptureInfo", &[10_010, 11_030, 12_030]),
    ("cuStreamGetCtx", &[9_020, 12_050]),
    ("cuStreamUpdateCaptureDependencies", &[11_030, 12_030]),
    ("cuStreamWaitValue32", &[8_000, 11_070]),
    ("cuStreamWaitValue64", &[9_000, 11_070]),
    ("cuStreamWriteValue32", &[8_000, 11_070]),
    ("cuStreamWriteValue64", &[9_000, 11_070]),
    ("cuTexRefGetAddress", &[2_000, 3_020]),
    ("cuTexRefSetAddress", &[2_000, 3_020]),
    ("cuTexRefSetAddress2D", &[2_020, 3_020, 4_010]),
];

/// The name under which a form is exported; none when the version is older than all of them.
pub fn exported(base: &str, version: i32) -> Option<String> {
    // The name of one form became that of another call in CUDA 12 (cuda.h: cuGraphInstantiate is
    // a macro for cuGraphInstantiateWithFlags).
    if base == "cuGraphInstantiate" && version >= 12_000 {
        return Some("cuGraphInstantiateWithFlags".to_owned());
    }
    let Ok(index) = FORMS.binary_search_by_key(&base, |(name, _)| name) else {
        return Some(base.to_owned());
    };
    match FORMS[index].1.iter().filter(|since| **since <= version).count() {
        0 => None,
        1 => Some(base.to_owned()),
        form => Some(format!("{base}_v{form}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{FORMS, exported};

    #[test]
    fn names_are_sorted_and_forms_ascend() {
        assert!(FORMS.is_sorted_by_key(|(name, _)| name));
        for (name, since) in FORMS {
            assert!(since.len() > 1 && since.is_sorted(), "{name}");
        }
    }

    #[test]
    fn a_version_gets_the_form_of_its_header() {
        for (base, version, expected) in [
            ("cuCtxCreate", 12_000, "cuCtxCreate_v3"),
            ("cuCtxCreate", 11_030, "cuCtxCreate_v2"),
            ("cuCtxCreate", 13_000, "cuCtxCreate_v4"),
            ("cuMemAlloc", 13_000, "cuMemAlloc_v2"),
            ("cuMemAllocAsync", 13_000, "cuMemAllocAsync"),
            ("cuGraphInstantiate", 11_040, "cuGraphInstantiate_v2"),
            ("cuGraphInstantiate", 13_000, "cuGraphInstantiateWithFlags"),
            ("cuStreamBeginCapture", 10_010, "cuStreamBeginCapture_v2"),
            ("cuStreamGetCaptureInfo", 12_000, "cuStreamGetCaptureInfo_v2"),
            ("cuStreamGetCaptureInfo", 13_000, "cuStreamGetCaptureInfo_v3"),
            ("cuMemPrefetchAsync", 12_010, "cuMemPrefetchAsync"),
            ("cuMemPrefetchAsync", 13_000, "cuMemPrefetchAsync_v2"),
        ] {
            assert_eq!(exported(base, version).as_deref(), Some(expected), "{base} {version}");
        }
        assert_eq!(exported("cuMemPrefetchAsync", 7_050), None);
    }
}
