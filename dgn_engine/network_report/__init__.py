"""One page about one network: what was read, and a section for each thing that is measured.

`sections` lists the sections. Each one states its cost, measures its numbers within a time limit,
and says in sentences what they mean for this network and how usual they are: against networks of
the same architecture with random weights, against shuffled labels, and against the trained networks
of the documentation.
"""
