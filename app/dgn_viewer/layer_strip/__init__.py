"""The layers strip: gate layers over value layers, dragged into another order."""
