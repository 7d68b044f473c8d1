"""The machine and its findings, for `edgeserve doctor`."""
