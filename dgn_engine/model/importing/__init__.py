"""Networks made of what others saved: tensors, files, `nn.Sequential` modules."""
