"""The cases of `make gpu`: one case per module, found by the constant CASE."""
