//! What the contents of device memory cost: writes and clears, in memory and on disk.
#![expect(unsafe_code, reason = "the driver writes from memory of the program")]

use criterion::{Criterion, criterion_group, criterion_main};
use gpubench_virtual_gpu_driver::backing_store::BackingStore;

const BYTES: usize = 16 << 20;

fn store(c: &mut Criterion) {
    for (kind, folder) in [("memory", "/dev/shm"), ("disk", env!("CARGO_TARGET_TMPDIR"))] {
        let file = tempfile::NamedTempFile::new_in(folder).unwrap();
        file.as_file().set_len(BYTES as u64).unwrap();
        let store = BackingStore::open(file.path(), BYTES as u64).unwrap();
        let from = vec![1_u8; BYTES];
        for (does, clears) in [("write", false), ("write and clear", true)] {
            c.bench_function(&format!("{does} 16 MiB in {kind}"), |b| {
                b.iter(|| {
                    // SAFETY: both ranges are as long as that.
                    unsafe { store.write_from(0, from.as_ptr(), BYTES) };
                    if clears {
                        store.scrub(0, BYTES as u64).unwrap();
                    }
                });
            });
        }
    }
}

criterion_group!(benches, store);
criterion_main!(benches);
