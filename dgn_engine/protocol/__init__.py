"""The messages between engine and viewer: frozen data, numpy only, never torch."""
