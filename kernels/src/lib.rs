//! Device code: CUDA sources, checked-in PTX, typed launchers and the thin driver layer.
