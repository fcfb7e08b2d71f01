"""Training one run: steps, scores, probes, and what is recorded of them."""
