"""Networks built from what others saved: tensors, files, `nn.Sequential` modules."""

MODEL = "MODULE:NAME"
"""How a user refers to an `nn.Module`, or a function that makes one, in --model."""
