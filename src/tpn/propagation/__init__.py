"""The mathematics of the paper as pure functions on tensors: affinity, graph, solvers, in order of use."""
