//! Modules with logs, libraries, function lookup.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use super::*;

#[test]
fn a_refused_module_has_a_compiler_log() -> Result<(), Error> {
    with_context(|| {
        let text = c".version 7.8\n.target sm_70\n.visible .entry k() { frob.b32 %r1; }";
        let mut log = [1 as c_char; 200];
        let mut options: [c_int; 2] = [5, 6];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), 200 as *mut c_void];
        let mut module: Handle = null_mut();
        let (list, places) = (options.as_mut_ptr(), values.as_mut_ptr());
        // SAFETY: valid strings, pointers and arrays of two.
        unsafe {
            let image = text.as_ptr().cast();
            assert_eq!(cuModuleLoadDataEx(&raw mut module, image, 2, list, places), 218);
            let output = CStr::from_ptr(log.as_ptr()).to_str()?;
            assert!(output.contains("frob"), "{output:?}");
            assert_eq!(values[1] as usize, output.len() + 1);
            assert_eq!(cuModuleLoadDataEx(&raw mut module, image, 2, null_mut(), places), 1);
        }
        Ok(())
    })
}

#[test]
fn a_function_is_invalid_after_its_module_is_unloaded() -> Result<(), Error> {
    with_context(|| {
        let (mut module, mut found): (Handle, Handle) = (null_mut(), null_mut());
        let (text, mut threads) = (CString::new(COPY)?, 0);
        ok!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
        let name = c"stream_copy".as_ptr();
        ok!(cuModuleGetFunction(&raw mut found, module, name))?;
        ok!(cuFuncGetAttribute(&raw mut threads, 0, found))?;
        assert_eq!(threads, 1024);
        assert_eq!(call!(cuModuleGetFunction(&raw mut found, module, c"x".as_ptr())), 500);
        ok!(cuModuleUnload(module))?;
        assert_eq!(call!(cuFuncGetAttribute(&raw mut threads, 0, found)), 400);
        assert_eq!(call!(cuModuleUnload(module)), 400);
        Ok(())
    })
}

#[test]
fn a_library_is_loaded_into_the_context_that_uses_it() -> Result<(), Error> {
    with_context(|| {
        let text = CString::new(COPY)?;
        let (mut library, mut kernel, mut function): (Handle, Handle, Handle) =
            (null_mut(), null_mut(), null_mut());
        let data: Vec<u32> = (0..64).collect();
        let (from, to) = (alloc(256)?, alloc(256)?);
        let (image, none) = (text.as_ptr().cast(), null_mut());
        let options = null_mut();
        let loaded =
            call!(cuLibraryLoadData(&raw mut library, image, options, none, 0, options, none, 0));
        ok(loaded)?;
        ok!(cuLibraryGetKernel(&raw mut kernel, library, c"stream_copy".as_ptr()))?;
        let missing = call!(cuLibraryGetKernel(&raw mut function, library, c"none".as_ptr()));
        assert_eq!(missing, 500);
        ok!(cuMemcpyHtoD_v2(from, data.as_ptr().cast(), 256))?;
        ok(launch(kernel, 1, 32, null_mut(), &mut [to, from, 16]))?;
        assert_eq!(words(to, 64)?, data, "a kernel is launched like a function");
        let (mut offset, mut size) = (0, 0);
        let (at, bytes) = (&raw mut offset, &raw mut size);
        ok!(cuKernelGetParamInfo(kernel, 1, at, bytes))?;
        assert_eq!((offset, size), (8, 8));
        assert_eq!(call!(cuKernelGetParamInfo(kernel, 9, at, bytes)), 1);
        ok!(cuLibraryUnload(library))?;
        assert_eq!(call!(cuKernelGetParamInfo(kernel, 1, at, bytes)), 400);
        assert_eq!(call!(cuLibraryUnload(library)), 400);
        Ok(())
    })
}

const GLOBAL: &str = ".version 7.0\n.target sm_70\n.address_size 64
.visible .const .align 4 .u32 factor = 7;
.visible .entry fill(.param .u64 out) {
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out]; ld.const.u32 %r1, [factor]; st.global.u32 [%rd1], %r1;
    ret;
}";

#[test]
fn a_kernel_gets_more_shared_memory_once_the_program_allows_it() -> Result<(), Error> {
    const BYTES: c_int = 60 << 10;
    with_context(|| {
        let (text, out) = (CString::new(GLOBAL)?, alloc(4)?);
        let (mut link, mut library, mut kernel): (Handle, Handle, Handle) =
            (null_mut(), null_mut(), null_mut());
        // What a program links is PTX, and what comes of it is loaded like PTX.
        ok!(cuLinkCreate_v2(0, null_mut(), null_mut(), &raw mut link))?;
        let (bytes, none) = (text.as_bytes().len(), null_mut());
        let (image, name) = (text.as_ptr().cast(), c"fill".as_ptr());
        ok!(cuLinkAddData_v2(link, 1, image, bytes, name, 0, none, null_mut()))?;
        assert_eq!(call!(cuLinkAddData_v2(link, 0, image, bytes, name, 0, none, null_mut())), 209);
        let (mut image, mut length) = (null_mut(), 0);
        ok!(cuLinkComplete(link, &raw mut image, &raw mut length))?;
        assert_eq!(length, bytes + 1);
        let (none, values) = (null_mut(), null_mut());
        ok!(cuLibraryLoadData(&raw mut library, image, none, values, 0, none, values, 0))?;
        ok!(cuLinkDestroy(link))?;
        ok!(cuLibraryGetKernel(&raw mut kernel, library, name))?;
        let launched = || launch_with(kernel, BYTES as u32, &mut [out]);
        assert_eq!(launched(), 1, "the default is 48 KiB");
        assert_eq!(call!(cuKernelSetAttribute(8, 1 << 20, kernel, 0)), 1, "more than there is");
        ok!(cuKernelSetAttribute(8, BYTES, kernel, 0))?;
        let mut allowed = 0;
        ok!(cuKernelGetAttribute(&raw mut allowed, 8, kernel, 0))?;
        assert_eq!(allowed, BYTES);
        ok(launched())?;
        assert_eq!(words(out, 1)?, [7]);
        let (mut place, mut size) = (0, 0);
        ok!(cuLibraryGetGlobal(&raw mut place, &raw mut size, library, c"factor".as_ptr()))?;
        assert_eq!(size, 4);
        ok!(cuMemcpyHtoD_v2(place, 9_u32.to_ne_bytes().as_ptr().cast(), 4))?;
        ok(launched())?;
        assert_eq!(words(out, 1)?, [9]);
        assert_eq!(
            call!(cuLibraryGetGlobal(&raw mut place, &raw mut size, library, c"none".as_ptr())),
            500
        );
        ok!(cuLibraryUnload(library))
    })
}

fn launch_with(function: Handle, shared: u32, arguments: &mut [u64]) -> i32 {
    let mut places: Vec<*mut c_void> =
        arguments.iter_mut().map(|argument| (&raw mut *argument).cast()).collect();
    let (stream, values) = (null_mut(), places.as_mut_ptr());
    call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, shared, stream, values, null_mut()))
}

#[test]
fn a_context_of_cuda_13_takes_parameters() -> Result<(), Error> {
    with_context(|| {
        let (mut context, mut device): (Handle, c_int) = (null_mut(), -1);
        let nothing = [0_u64; 3];
        for params in [std::ptr::null(), nothing.as_ptr().cast()] {
            ok!(cuCtxCreate_v4(&raw mut context, params, 0, 0))?;
            ok!(cuCtxGetDevice_v2(&raw mut device, context))?;
            ok!(cuCtxSynchronize_v2(context))?;
            ok!(cuCtxDestroy_v2(context))?;
            assert_eq!(call!(cuCtxSynchronize_v2(context)), 201);
        }
        // A share of the SMs is for clients of MPS.
        let share = [nothing.as_ptr() as u64, 1, 0];
        let refused = cuCtxCreate_v4;
        assert_eq!(call!(refused(&raw mut context, share.as_ptr().cast(), 0, 0)), 224);
        assert_eq!(call!(cuCtxCreate_v4(&raw mut context, std::ptr::null(), 0, 1)), 101);
        Ok(())
    })
}

#[test]
fn a_lookup_depends_on_version_and_stream_flags() -> Result<(), Error> {
    let _lock = driver_support::lock(&DEVICE, quiet_turing);
    let find = |name: &CStr, version, flags| {
        let (mut found, mut status) = (null_mut(), -1);
        // SAFETY: a valid string and valid pointers.
        let code = unsafe {
            cuGetProcAddress_v2(name.as_ptr(), &raw mut found, version, flags, &raw mut status)
        };
        (code, found as usize, status)
    };
    for (name, version, flags, expected) in [
        (c"cuMemAlloc", 13_000, 0, cuMemAlloc_v2 as *const () as usize),
        (c"cuStreamBeginCapture", 13_000, 0, cuStreamBeginCapture_v2 as *const () as usize),
        (c"cuGraphInstantiate", 13_000, 0, cuGraphInstantiateWithFlags as *const () as usize),
        (c"cuMemcpyHtoD", 13_000, 2, cuMemcpyHtoD_v2_ptds as *const () as usize),
        (c"cuLaunchKernel", 13_000, 2, cuLaunchKernel_ptsz as *const () as usize),
        (c"cuMemAlloc", 13_000, 2, cuMemAlloc_v2 as *const () as usize),
    ] {
        let found = find(name, version, flags);
        assert_eq!(found, (0, expected, 0), "{name:?} {version} {flags}");
    }
    assert_eq!(find(c"cuMemAlloc", 1_000, 0), (500, 0, 2));
    assert_eq!(find(c"cuNothing", 13_000, 0), (500, 0, 1));
    assert_eq!(find(c"cuMemAlloc", 13_000, 8).0, 1);
    Ok(())
}
