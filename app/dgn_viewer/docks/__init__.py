"""Docked panels: their frames, their layout, and when each of them is drawn."""
