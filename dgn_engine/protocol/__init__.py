"""What crosses the border between engine and viewer: frozen data, numpy only, never torch."""
