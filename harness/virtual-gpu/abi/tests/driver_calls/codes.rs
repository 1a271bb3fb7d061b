//! The codes by which an H100 80GB HBM3 told what it takes and what it refuses (driver 580.159.04,
//! 2026-11-22).
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CString, c_int};
use std::ptr::null_mut;

use super::*;

#[test]
fn a_context_has_one_way_to_wait_and_known_flags() -> Result<(), Error> {
    with_context(|| {
        // The flags, what cuDevicePrimaryCtxSetFlags says, and what cuCtxCreate does.
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
            // SAFETY: valid places.
            unsafe {
                let found = cuDevicePrimaryCtxSetFlags_v2(0, flags);
                assert_eq!(found, primary, "flags {flags:#x} of the primary context");
                let found = cuCtxCreate_v2(&raw mut context, flags, 0);
                assert_eq!(found, own, "flags {flags:#x} of a context");
                if found == 0 {
                    let mut told = 0;
                    ok(cuCtxGetFlags(&raw mut told))?;
                    assert_eq!(told, flags);
                    ok(cuCtxDestroy_v2(context))?;
                }
            }
        }
        Ok(())
    })
}

#[test]
fn limits_that_there_are_not_have_two_codes() -> Result<(), Error> {
    with_context(|| {
        for (limit, code) in [(0, 0), (2, 0), (3, 215), (9, 215), (10, 1), (-1, 1)] {
            let mut value = 0;
            // SAFETY: a valid place.
            let found = unsafe { cuCtxGetLimit(&raw mut value, limit) };
            assert_eq!(found, code, "limit {limit}");
            assert_eq!(value > 0, code == 0, "limit {limit}");
            // SAFETY: a call without pointers.
            assert_eq!(unsafe { cuCtxSetLimit(limit, value) }, code, "set {limit}");
        }
        Ok(())
    })
}

#[test]
fn texts_that_cannot_be_loaded_are_told_apart() -> Result<(), Error> {
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
            // SAFETY: a valid string and place.
            let found = unsafe { cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
            assert_eq!(found, code, "{text:?}");
        }
        Ok(())
    })
}

/// An attribute of a function, or its code.
fn attribute(function: Handle, number: c_int) -> Result<c_int, i32> {
    let mut value = 0;
    // SAFETY: a valid place.
    match unsafe { cuFuncGetAttribute(&raw mut value, number, function) } {
        0 => Ok(value),
        code => Err(code),
    }
}

fn is_loaded(function: Handle) -> Result<bool, Error> {
    let mut state = -1;
    // SAFETY: a valid place.
    unsafe { ok(cuFuncIsLoaded(&raw mut state, function)) }?;
    Ok(state == 1)
}

#[test]
fn a_function_is_loaded_when_it_is_asked_for_or_run() -> Result<(), Error> {
    with_context(|| {
        let text = ".version 7.8\n.target sm_70\n.address_size 64\n\
            .visible .entry a() { ret; }\n.visible .entry b() { ret; }\n";
        let (mut module, mut got, mut listed): (Handle, Handle, _) =
            (null_mut(), null_mut(), [null_mut(); 2]);
        let (text, first) = (CString::new(text)?, CString::new("a")?);
        // SAFETY: valid strings and places.
        unsafe {
            ok(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
            ok(cuModuleEnumerateFunctions(listed.as_mut_ptr(), 2, module))?;
        }
        for function in listed {
            assert!(!is_loaded(function)?);
            for number in [0, 2, 8] {
                assert_eq!(attribute(function, number), Err(913), "attribute {number}");
            }
            assert_eq!(attribute(function, 9), Ok(-1), "the carve-out nobody set");
            assert!(attribute(function, 4).is_ok_and(|registers| registers > 0));
        }
        // SAFETY: valid strings and places.
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
