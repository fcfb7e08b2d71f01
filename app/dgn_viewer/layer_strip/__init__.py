"""The layer strip: gate layers above value layers, reordered by dragging."""
