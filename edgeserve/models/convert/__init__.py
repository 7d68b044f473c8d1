"""Checkpoints of other runtimes, turned into what the engines here can map. Run once, when a model is pulled."""
