"""The cases against neural-tangents: one module per row, found by the constant CASE."""
