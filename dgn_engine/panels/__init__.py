"""One panel a file; each offers the constant PANEL and imports neither Qt nor torch."""
