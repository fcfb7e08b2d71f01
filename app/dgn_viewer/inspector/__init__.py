"""The column on the right: a new run, a listed file, what a panel shows."""
