//! The public contract of gpubench: types, units, wire messages, exit codes and the format version.
