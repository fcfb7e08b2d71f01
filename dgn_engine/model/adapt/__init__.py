"""Conversion of an `nn.Module` to a gated network with equal logits and gradients."""
