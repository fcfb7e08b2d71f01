"""Text from outside made safe to print, bounded TOML, and formatted numbers."""
