//! Binds the library's own calls to itself, so that a preloaded interposer cannot hijack them, and
//! keeps it mapped: a thread that closes the library ends with destructors of it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
