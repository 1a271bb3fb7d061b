//! Binds the library's own calls to itself, so that a preloaded interposer cannot hijack them.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
