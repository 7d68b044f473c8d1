"""Conversions of other runtimes' checkpoints into files that the engines map, run by a pull."""
