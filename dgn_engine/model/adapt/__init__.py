"""Any `nn.Module` of known operations as a gated network, with equal logits and gradients."""
