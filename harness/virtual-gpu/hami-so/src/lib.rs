//! The shared object form of the stand-in for HAMi-core, which programs preload.
//!
//! A package of its own, because cargo gives every build of a shared object the same file name:
//! `hami` is built for its tests too, this package only as a build-dependency of the harness.

use gpubench_virtual_gpu_hami as _;
