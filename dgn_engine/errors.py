"""One exception for what the user can mend: its text is the one sentence they read."""


class UserError(Exception):
    """What was refused, where, and what to do; shown as a notice or on stderr with exit code 2."""
