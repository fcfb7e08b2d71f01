"""Heavy readings in a process of low priority, slice by slice: training is not held up."""
