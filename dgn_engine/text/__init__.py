"""Text of others: made printable on its way out, and TOML held to bounds on its way in."""
