"""One file, one row of the table against neural-tangents."""
