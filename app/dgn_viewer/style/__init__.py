"""Colours, fonts and style sheets, light and dark."""
