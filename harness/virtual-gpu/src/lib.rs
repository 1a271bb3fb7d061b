//! A libcuda and a libnvidia-ml without hardware: the model, its clock and the two C interfaces.

pub mod model;
pub mod shm;
pub mod state;
