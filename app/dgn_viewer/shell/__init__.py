"""Everything around the panels: toolbar, status bar, notices, dialogs, tours, files."""
