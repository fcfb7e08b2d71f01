"""Entry point of `python -m dgn_engine.cli`, the same as `dgn`."""

import sys

from dgn_engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
