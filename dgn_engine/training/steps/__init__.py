"""Training steps: autograd, the hand-written dense backward pass, CUDA graphs."""
