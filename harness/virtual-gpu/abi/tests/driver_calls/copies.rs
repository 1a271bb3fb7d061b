//! Large copies that look like the last one to their target.

use super::*;

const BYTES: usize = 2 << 20;

/// Pinned memory full of one byte.
fn pinned(value: u8) -> Result<*mut std::ffi::c_void, Error> {
    let mut at = null_mut();
    ok!(cuMemHostAlloc(&raw mut at, BYTES, 0))?;
    // SAFETY: as long as was allocated.
    #[expect(unsafe_code, reason = "pinned memory is reached by its address")]
    unsafe {
        at.cast::<u8>().write_bytes(value, BYTES);
    }
    Ok(at)
}

/// A byte in the middle.
fn middle(buffer: u64) -> Result<u8, Error> {
    let mut found = 0_u8;
    ok!(cuMemcpyDtoH_v2((&raw mut found).cast(), buffer + BYTES as u64 / 2, 1))?;
    Ok(found)
}

#[test]
fn a_copy_that_looks_like_the_last_one_moves_its_bytes_where_they_are_not_there()
-> Result<(), Error> {
    with_context(|| {
        let (ones, twos) = (pinned(1)?, pinned(2)?);
        let (buffer, other) = (alloc(BYTES)?, alloc(BYTES)?);
        let upload = |to: u64, from| ok!(cuMemcpyHtoD_v2(to, from, BYTES));
        upload(other, twos)?;
        for _ in 0..3 {
            upload(buffer, ones)?;
            assert_eq!(middle(buffer)?, 1);
        }
        ok!(cuMemcpyDtoD_v2(buffer, other, BYTES))?;
        assert_eq!(middle(buffer)?, 2);
        upload(buffer, ones)?;
        assert_eq!(middle(buffer)?, 1, "another copy wrote there in between");
        // Other memory at the same address.
        ok!(cuMemFree_v2(buffer))?;
        let again = alloc(BYTES)?;
        assert_eq!(again, buffer);
        ok!(cuMemcpyDtoD_v2(again, other, BYTES))?;
        upload(again, ones)?;
        assert_eq!(middle(again)?, 1, "the memory is new");
        ok!(cuMemFreeHost(ones))?;
        let threes = pinned(3)?;
        upload(again, threes)?;
        assert_eq!(middle(again)?, 3, "the source is new");
        for at in [again, other] {
            ok!(cuMemFree_v2(at))?;
        }
        for at in [twos, threes] {
            ok!(cuMemFreeHost(at))?;
        }
        Ok(())
    })
}
