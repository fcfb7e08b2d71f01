"""The pages of the inspector."""
