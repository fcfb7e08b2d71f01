"""Where units are carried out: one by one, in processes, in stacks, on a Dask cluster."""
