"""One model over several machines: the machines, the memory that they offer, and the split of the layers."""
