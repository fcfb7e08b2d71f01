"""Animations drawn in a process of their own, so that training and the window go on as before."""
