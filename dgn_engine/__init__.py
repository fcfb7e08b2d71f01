"""Deep gated networks: training, gates and kernels, without a window.

`import dgn_engine as dgn` is quick: torch is loaded when a name is first used.
"""

from dgn_engine.plugins import lazy_names as _lazy_names

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = _lazy_names(__name__, __file__)
