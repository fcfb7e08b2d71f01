"""Panels, one per file. Each module defines `PANEL` and imports neither Qt nor torch."""
