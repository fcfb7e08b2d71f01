"""What surrounds the panels: menus, toolbar, status bar, palette, files in and out."""
