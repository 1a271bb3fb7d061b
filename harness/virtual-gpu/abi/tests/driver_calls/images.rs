//! Images other than PTX that the device can run: fat binaries, cubins, newer targets.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use super::*;

/// Loads an image with a place for the compiler's log: the code and the log.
fn load(module: &mut Handle, image: &[u8]) -> Result<(i32, String), Error> {
    let mut log = [0 as c_char; 300];
    let mut options: [c_int; 2] = [5, 6];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), 300 as *mut c_void];
    let (list, places) = (options.as_mut_ptr(), values.as_mut_ptr());
    // SAFETY: an image with its terminating null or its length, and arrays of two.
    unsafe {
        let code = cuModuleLoadDataEx(module, image.as_ptr().cast(), 2, list, places);
        Ok((code, CStr::from_ptr(log.as_ptr()).to_str()?.to_owned()))
    }
}

/// `fatbinary` of CUDA 13.5.37 made these of `stream_copy.ptx` and `spin.ptx`, with the compression
/// that the name says. `plain` and `zstd` have two entries, of which one can run on a `turing`
/// or is made for it; `newer` has PTX for sm_90, `cubins` no PTX.
macro_rules! fatbin {
    ($name:literal) => {
        include_bytes!(concat!("../data/", $name, ".fatbin"))
    };
}

#[test]
fn a_fatbin_with_ptx_that_the_device_can_run_is_loaded() -> Result<(), Error> {
    with_context(|| {
        let images: [&[u8]; 3] = [fatbin!("plain"), fatbin!("zstd"), fatbin!("lz4")];
        let data: Vec<u32> = (0..64).collect();
        let (from, to) = (alloc(256)?, alloc(256)?);
        ok!(cuMemcpyHtoD_v2(from, data.as_ptr().cast(), 256))?;
        for image in images {
            let (mut module, mut copy): (Handle, Handle) = (null_mut(), null_mut());
            assert_eq!(load(&mut module, image)?, (0, String::new()));
            ok!(cuModuleGetFunction(&raw mut copy, module, c"stream_copy".as_ptr()))?;
            let absent = call!(cuModuleGetFunction(&raw mut copy, module, c"spin".as_ptr()));
            assert_eq!(absent, 500, "the text of the other entry is not loaded");
            ok!(cuMemsetD32_v2(to, 0, 64))?;
            ok(launch(copy, 1, 32, null_mut(), &mut [to, from, 16]))?;
            assert_eq!(words(to, 64)?, data);
            ok!(cuModuleUnload(module))?;
        }
        ok!(cuMemFree_v2(from))?;
        ok!(cuMemFree_v2(to))
    })
}

#[test]
fn an_image_without_ptx_for_the_device_is_refused_with_its_reason() -> Result<(), Error> {
    with_context(|| {
        let newer = b".version 7.8\n.target sm_90\n.address_size 64\n\0";
        let images: [(&[u8], i32, &str); 5] = [
            (newer, 218, "ptx target sm_90 does not run on the device: it is an sm_75"),
            (fatbin!("newer"), 209, "this fatbin has PTX for sm_90, newer than the device (sm_75)"),
            (fatbin!("cubins"), 209, "this fatbin has no PTX, only cubins (sm_75, sm_80)"),
            (b"\x7fELF\x02", 209, "this is a cubin"),
            (
                b"P\xed\x55\xba\x01\0\x10\0\xff\xff\xff\xff\xff\xff\xff\xff",
                200,
                "this fatbin is damaged",
            ),
        ];
        for (image, code, reason) in images {
            let mut module: Handle = null_mut();
            let (found, log) = load(&mut module, image)?;
            assert_eq!(found, code, "{log}");
            assert!(log.starts_with(reason) && !log.contains('\n'), "{log}");
        }
        Ok(())
    })
}
