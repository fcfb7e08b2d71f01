"""Side-by-side measurements of the kernels: `python -m benchmarks` (not part of the package)."""
