"""Several boxes: the state of all of them, the choice of one for a request, and the engines that carry requests."""
