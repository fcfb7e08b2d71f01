"""The window: panels that show what the engine publishes. Importing this needs no display."""
