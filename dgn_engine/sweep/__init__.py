"""Many runs and calculations as units of work that survive whatever happens to their workers."""
