"""Session files `.dgn`: one run in one file, written, checked and unpacked."""
