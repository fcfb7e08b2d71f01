"""Train one run: steps, scores, probes, and recording."""
