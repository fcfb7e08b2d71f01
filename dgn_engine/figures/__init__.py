"""Scenes on paper: PNG, SVG, PDF and animations by matplotlib, CSV and NPZ; recorded panels."""
