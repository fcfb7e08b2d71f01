"""Images that others packed: unpacked, measured and decoded in confined children."""
