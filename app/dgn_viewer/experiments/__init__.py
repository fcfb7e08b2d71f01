"""Experiments of the papers in the window: started as a child process, shown from its folder."""
