"""The docked panels: their frames, their places, and when each is drawn."""
