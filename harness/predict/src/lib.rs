//! Prediction without a device: the queueing simulation, the packing rule and the decision tree.
