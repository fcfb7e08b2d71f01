"""The loops of the kernels that numba compiles where it is installed."""
