"""The same scenes on paper: PNG, SVG and PDF through matplotlib, CSV and NPZ of the data."""
