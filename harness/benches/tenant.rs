//! How long a tenant takes from the start of its process to its first message, and to its end.
#![expect(clippy::disallowed_methods, reason = "the process has the environment of the bench")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};

fn start(c: &mut Criterion) {
    c.bench_function("start of a tenant", |b| {
        b.iter(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gpubench"));
            let command = command.arg("__tenant").stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut tenant = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(tenant.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("hello"), "{line}");
            // The end of its messages ends it.
            drop(tenant.stdin.take());
            tenant.wait().unwrap();
        });
    });
}

criterion_group!(benches, start);
criterion_main!(benches);
