"""Kernels of deep gated networks, as pure functions on tensors (theory §3–7).

`__init__.pyi` lists the public names; each is imported on first use.
"""

from dgn_engine.plugins import lazy_names as _lazy_names

__getattr__, __dir__, __all__ = _lazy_names(__name__, __file__)
