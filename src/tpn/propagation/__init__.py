"""The mathematics of the paper as pure functions on tensors, in the order of use: affinity, graph, solvers."""
