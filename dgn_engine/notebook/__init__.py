"""The engine from a notebook or a script: `dgn.train`, `dgn.open_run`, `dgn.figure`."""
