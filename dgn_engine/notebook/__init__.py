"""The engine from a notebook or a script: training, recorded runs, results and figures."""
