"""Takes the pictures of README and docs: `make screenshots`, and the film of `make demo`."""
