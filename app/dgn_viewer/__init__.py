"""The desktop application. Importing this package does not need a display."""
