//! What a tenant does: the clock seam, load generation, the sample log and the workloads.
