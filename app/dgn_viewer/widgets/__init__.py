"""Small widgets that several parts share."""
