"""How a training step is taken: by autograd, by hand, as a graph of a card."""
