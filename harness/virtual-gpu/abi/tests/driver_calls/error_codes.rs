//! Codes of an H100 80GB HBM3 for accepted and refused arguments (driver 580.159.04, 2026-11-22).

use std::ffi::CString;
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
            let found = call!(cuDevicePrimaryCtxSetFlags_v2(0, flags));
            assert_eq!(found, primary, "flags {flags:#x} of the primary context");
            let found = call!(cuCtxCreate_v2(&raw mut context, flags, 0));
            assert_eq!(found, own, "flags {flags:#x} of a context");
            if found == 0 {
                let mut stored = 0;
                ok!(cuCtxGetFlags(&raw mut stored))?;
                assert_eq!(stored, flags);
                ok!(cuCtxDestroy_v2(context))?;
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
            let found = call!(cuCtxGetLimit(&raw mut value, limit));
            assert_eq!(found, code, "limit {limit}");
            assert_eq!(value > 0, code == 0, "limit {limit}");
            assert_eq!(call!(cuCtxSetLimit(limit, value)), code, "set {limit}");
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
            (head("7.8", "sm_75") + ".visible .entry x() { bogus; }\n", 218),
            (head("99.9", "sm_75"), 222),
            (head("7.8", "sm_999"), 218),
            (head("7.8", "sm_70a9"), 218),
        ] {
            let mut module: Handle = null_mut();
            let image = CString::new(text.clone())?;
            let found = call!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()));
            assert_eq!(found, code, "{text:?}");
        }
        Ok(())
    })
}
