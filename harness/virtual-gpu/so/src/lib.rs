//! The shared object form of the virtual GPU, embedded in the gpubench binary.
