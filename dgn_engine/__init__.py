"""Deep gated networks: training, gates and kernels, without a window."""

__version__ = "0.1.0"
