"""Training on a CUDA card without waiting for it: captured steps, copies that arrive later."""
