"""One file, one row of the table."""
