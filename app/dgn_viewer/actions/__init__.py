"""Actions, and the menus, command palette and shortcuts built from them."""
