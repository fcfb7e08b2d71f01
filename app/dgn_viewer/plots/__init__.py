"""Live display of scenes; the only package that imports pyqtgraph."""
