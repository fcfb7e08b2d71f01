"""What carries out each command of `dgn`, once its options are known to make sense."""
