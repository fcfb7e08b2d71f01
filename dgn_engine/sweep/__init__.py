"""Execute many runs and calculations as units of work, tolerating the loss of workers."""
