"""The benchmark cases: one module per row of the table, found by the constant CASE."""
