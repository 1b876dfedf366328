"""The algorithm: train, predict, select, take labels, resume after any interruption."""
