"""The pages of the inspector, one at a time."""
