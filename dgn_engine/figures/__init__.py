"""Scenes on paper: PNG, SVG, PDF and films by matplotlib, CSV and NPZ; panels of recorded runs."""
