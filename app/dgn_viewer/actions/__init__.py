"""Every action once, and the menus, palette and shortcuts made of them."""
