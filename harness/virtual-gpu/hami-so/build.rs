//! Keeps the library mapped: a thread that closes it ends with destructors of it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
