"""Builds the documentation site: what `make docs` runs (mkdocs.yml names the hooks)."""
