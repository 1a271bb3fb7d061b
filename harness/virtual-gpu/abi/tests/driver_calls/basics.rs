//! The driver API in virtual time: correct results, durations of the machine file, sticky faults,
//! refusal of freed handles.

use super::driver_support::launch;
use super::*;

#[test]
fn a_copy_takes_bytes_over_bandwidth() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let data: Vec<u32> = (0..4096).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        let bytes = data.len() * 4;
        let (from, to) = (alloc(bytes)?, alloc(bytes)?);
        let mut back = vec![0u32; data.len()];
        ok!(cuMemcpyHtoD_v2(from, data.as_ptr().cast(), bytes))?;
        ok(launch(copy, 8, 128, &mut [to, from, bytes as u64 / 16]))?;
        ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), to, bytes))?;
        assert_eq!(back, data);

        // A large one: 2 x 256 MiB of traffic at 320 GB/s is 1.68 ms between its events.
        let large = 256 << 20;
        let (from, to) = (alloc(large)?, alloc(large)?);
        let (mut start, mut end): (Handle, Handle) = (null_mut(), null_mut());
        let mut milliseconds = 0.0f32;
        ok!(cuEventCreate(&raw mut start, 0))?;
        ok!(cuEventCreate(&raw mut end, 0))?;
        ok!(cuEventRecord(start, null_mut()))?;
        ok(launch(copy, 160, 256, &mut [to, from, large as u64 / 16]))?;
        ok!(cuEventRecord(end, null_mut()))?;
        ok!(cuEventSynchronize(end))?;
        ok!(cuEventElapsedTime(&raw mut milliseconds, start, end))?;
        let expected = 2.0 * large as f32 / 320e9 * 1e3;
        // The start event is recorded some host time before the kernel arrives: 2.4 us of launch
        // cost.
        let error = milliseconds / expected - 1.0;
        assert!((0.0..0.01).contains(&error), "{milliseconds} ms, expected {expected} ms");
        // A stand-in for sampled output: the same after the same launch.
        let mut stand_in = || -> Result<Vec<u32>, Error> {
            ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), to, bytes))?;
            Ok(back.clone())
        };
        let first = stand_in()?;
        ok(launch(copy, 160, 256, &mut [to, from, large as u64 / 16]))?;
        assert!(first != data && first == stand_in()?);
        Ok(())
    })
}

#[test]
fn a_large_fill_is_materialised_when_a_kernel_reads_it() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (large, bytes) = (100 << 20, 64 << 10);
        let (filled, part, to) = (alloc(large)?, 37 << 20, alloc(bytes)?);
        let mut back = vec![0u32; bytes / 4];
        let mut copied = |value: u32| -> Result<bool, Error> {
            let from = filled + part;
            ok!(cuMemsetD32_v2(filled, value, large / 4))?;
            ok(launch(copy, 4, 256, &mut [to, from, bytes as u64 / 16]))?;
            ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), to, bytes))?;
            Ok(back.iter().all(|word| *word == value))
        };
        assert!(copied(0x0BAD_CAFE)?);
        // The new fill value, not the old one.
        assert!(copied(0x1234_5678)?);
        // So do reads by the host.
        ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), filled, bytes))?;
        assert!(back.iter().all(|word| *word == 0x1234_5678));
        // The range was written since and is no longer a fill.
        ok!(cuMemcpyHtoD_v2(filled, back.as_ptr().cast(), bytes))?;
        ok!(cuMemsetD32_v2(filled + 4, 7, (large - 4) / 4))?;
        let code = launch(copy, 4, 256, &mut [to, filled, bytes as u64 / 16]);
        assert_eq!(code, 801, "a partial fill");
        Ok(())
    })
}

#[test]
fn a_spin_ends_at_its_deadline() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let stamps = alloc(16)?;
        let mut back = [0u64; 2];
        let before = device().map_err(|c| format!("{c:?}"))?.now_ns();
        ok(launch(spin, 1, 32, &mut [3_000_000, 10_000_000, stamps]))?;
        ok!(cuCtxSynchronize())?;
        ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), stamps, 16))?;
        let lasted = back[1] - back[0];
        assert!((3_000_000..3_010_000).contains(&lasted), "{lasted}");
        assert!(back[0] > before && back[0] < before + 20_000, "{} after {before}", back[0]);
        Ok(())
    })
}

#[test]
fn invalid_arguments_return_codes() -> Result<(), Error> {
    with_context(|| {
        assert_eq!(call!(cuMemAlloc_v2(null_mut(), 16)), 1);
        let mut pointer = 0;
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 0)), 1);
        assert_eq!(call!(cuMemFree_v2(12345)), 1);
        assert_eq!(call!(cuStreamSynchronize(0x1230 as Handle)), 400);
        assert_eq!(call!(cuEventRecord(null_mut(), null_mut())), 400);
        assert_eq!(call!(cuMemcpyHtoD_v2(4096, std::ptr::dangling(), 8)), 1);
        let mut stream: Handle = null_mut();
        ok!(cuStreamCreate(&raw mut stream, 1))?;
        ok!(cuStreamDestroy_v2(stream))?;
        assert_eq!(call!(cuStreamDestroy_v2(stream)), 400);
        Ok(())
    })
}
