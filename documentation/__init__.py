"""All that writes pages and pictures of the documents.

`make docs` builds the site (mkdocs.yml names the hooks), `make screenshots` and `make demo` take
pictures of the window, `make notebook` runs the notebooks, `results_page` writes docs/results.md.
"""
