//! What the contents of device memory cost: writes and clears, on disk and in memory.
#![expect(unsafe_code, reason = "the driver writes from memory of the program")]

use std::fs::File;
use std::os::fd::FromRawFd;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use gpubench_virtual_gpu_driver::backing_store::BackingStore;

const BYTES: usize = 16 << 20;

fn store(c: &mut Criterion) {
    // SAFETY: a new descriptor, which the file owns.
    let memory = unsafe { File::from_raw_fd(libc::memfd_create(c"bench".as_ptr(), 0)) };
    let disk = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory));
    for (kind, path) in [("memory", Path::new(&name)), ("disk", disk.path())] {
        File::options().write(true).open(path).unwrap().set_len(BYTES as u64).unwrap();
        let store = BackingStore::open(path, BYTES as u64).unwrap();
        let [zeros, ones] = [vec![0_u8; BYTES], vec![1; BYTES]];
        // SAFETY: both ranges are as long as that.
        let write = |from: &[u8]| unsafe { store.write_from(0, from.as_ptr(), BYTES) };
        let mut group = c.benchmark_group(kind);
        group.bench_function("write 16 MiB", |b| b.iter(|| write(&ones)));
        group.bench_function("write 16 MiB, then zeros", |b| {
            b.iter(|| {
                write(&ones);
                write(&zeros);
            });
        });
        group.bench_function("write 16 MiB, then clear", |b| {
            b.iter(|| {
                write(&ones);
                store.scrub(0, BYTES as u64).unwrap();
            });
        });
        group.finish();
    }
}

criterion_group!(benches, store);
criterion_main!(benches);
