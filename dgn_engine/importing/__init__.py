"""Networks made of what others saved: tensors, files, `nn.Sequential` modules."""

MODEL = "MODULE:NAME"
"""How a user names an `nn.Module`, or what makes one, in their own code (--model)."""
