"""The inspector: the column on the right for forms, files, settings and explanations."""
