//! Codes of an H100 80GB HBM3 for accepted and refused arguments (driver 580.159.04, 2026-11-22).
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CString, c_int};
use std::ptr::null_mut;

use super::*;

#[test]
fn context_flags_have_one_scheduling_mode_and_no_unknown_bits() -> Result<(), Error> {
    with_context(|| {
        // The flags, the code of cuDevicePrimaryCtxSetFlags, and that of cuCtxCreate.
        for (flags, primary, own) in [
            (0x0, 0, 0),
            (0x1, 0, 0),
            (0x2, 0, 0),
            (0x3, 1, 1),
            (0x4, 0, 0),
            (0x5, 1, 1),
            (0x7, 1, 1),
            (0x8, 1, 0),
            (0x9, 1, 0),
            (0x10, 0, 0),
            (0x20, 0, 0),
            (0x80, 0, 0),
            (0x100, 1, 1),
        ] {
            let mut context: Handle = null_mut();
            // SAFETY: valid pointers.
            unsafe {
                let found = cuDevicePrimaryCtxSetFlags_v2(0, flags);
                assert_eq!(found, primary, "flags {flags:#x} of the primary context");
                let found = cuCtxCreate_v2(&raw mut context, flags, 0);
                assert_eq!(found, own, "flags {flags:#x} of a context");
                if found == 0 {
                    let mut stored = 0;
                    ok(cuCtxGetFlags(&raw mut stored))?;
                    assert_eq!(stored, flags);
                    ok(cuCtxDestroy_v2(context))?;
                }
            }
        }
        Ok(())
    })
}

#[test]
fn unknown_and_unsupported_limits_have_different_codes() -> Result<(), Error> {
    with_context(|| {
        for (limit, code) in [(0, 0), (2, 0), (3, 215), (9, 215), (10, 1), (-1, 1)] {
            let mut value = 0;
            // SAFETY: a valid pointer.
            let found = unsafe { cuCtxGetLimit(&raw mut value, limit) };
            assert_eq!(found, code, "limit {limit}");
            assert_eq!(value > 0, code == 0, "limit {limit}");
            // SAFETY: no pointers.
            assert_eq!(unsafe { cuCtxSetLimit(limit, value) }, code, "set {limit}");
        }
        Ok(())
    })
}

#[test]
fn invalid_images_have_different_codes() -> Result<(), Error> {
    with_context(|| {
        let head = |version: &str, target: &str| {
            format!(".version {version}\n.target {target}\n.address_size 64\n")
        };
        for (text, code) in [
            ("junk".to_owned(), 200),
            (String::new(), 200),
            (head("7.8", "sm_75"), 0),
            (
                head("7.8", "sm_75") + ".visible .entry x() { bogus; }\n",
                218,
            ),
            (head("99.9", "sm_75"), 222),
            (head("7.8", "sm_999"), 218),
            (head("7.8", "sm_70a9"), 218),
        ] {
            let mut module: Handle = null_mut();
            let image = CString::new(text.clone())?;
            // SAFETY: a valid string and pointer.
            let found = unsafe { cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
            assert_eq!(found, code, "{text:?}");
        }
        Ok(())
    })
}

/// An attribute of a function, or its code.
fn attribute(function: Handle, number: c_int) -> Result<c_int, i32> {
    let mut value = 0;
    // SAFETY: a valid pointer.
    match unsafe { cuFuncGetAttribute(&raw mut value, number, function) } {
        0 => Ok(value),
        code => Err(code),
    }
}

fn is_loaded(function: Handle) -> Result<bool, Error> {
    let mut state = -1;
    // SAFETY: a valid pointer.
    unsafe { ok(cuFuncIsLoaded(&raw mut state, function)) }?;
    Ok(state == 1)
}

#[test]
fn a_function_is_loaded_on_demand() -> Result<(), Error> {
    with_context(|| {
        let text = ".version 7.8\n.target sm_70\n.address_size 64\n\
            .visible .entry a() { ret; }\n.visible .entry b() { ret; }\n";
        let (mut module, mut got, mut listed): (Handle, Handle, _) =
            (null_mut(), null_mut(), [null_mut(); 2]);
        let (text, first) = (CString::new(text)?, CString::new("a")?);
        // SAFETY: valid strings and pointers.
        unsafe {
            ok(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
            ok(cuModuleEnumerateFunctions(listed.as_mut_ptr(), 2, module))?;
        }
        for function in listed {
            assert!(!is_loaded(function)?);
            for number in [0, 2, 8] {
                assert_eq!(attribute(function, number), Err(913), "attribute {number}");
            }
            assert_eq!(attribute(function, 9), Ok(-1), "the default carve-out");
            assert!(attribute(function, 4).is_ok_and(|registers| registers > 0));
        }
        // SAFETY: valid strings and pointers.
        unsafe {
            ok(cuModuleGetFunction(&raw mut got, module, first.as_ptr()))?;
            assert_eq!(
                [is_loaded(listed[0])?, is_loaded(listed[1])?],
                [true, false]
            );
            assert_eq!(attribute(listed[0], 0), Ok(1024));
            ok(launch(listed[1], 1, 32, null_mut(), &mut []))?;
            assert!(is_loaded(listed[1])?, "it ran");
            ok(cuFuncSetAttribute(got, 9, 50))?;
            assert_eq!(attribute(got, 9), Ok(50));
        }
        Ok(())
    })
}
