"""The engine in a notebook or script: training, recorded runs, results and figures."""
