//! Tests of the parts that need no compiler.

use super::*;

#[test]
fn spills_are_added_up_over_functions() {
    let clean = "ptxas info: Function properties for spin\n    0 bytes stack frame, \
        0 bytes spill stores, 0 bytes spill loads\nptxas info: Used 12 registers";
    let spilling = "8 bytes stack frame, 16 bytes spill stores, 4 bytes spill loads\n\
        0 bytes stack frame, 0 bytes spill stores, 2 bytes spill loads";
    assert_eq!(spilled_bytes(clean), Some(0));
    assert_eq!(spilled_bytes(spilling), Some(22));
    assert_eq!(spilled_bytes("ptxas info: Used 12 registers"), None);
}

#[test]
fn a_missing_wheel_names_the_remedy() {
    let nowhere = std::env::temp_dir().join("gpubench-no-such-wheels");
    let error = find(&nowhere, "nvrtc", "libnvrtc.so").expect_err("nothing there");
    assert!(error.ends_with("run ci/install-cuda-wheels.sh"), "{error}");
}
