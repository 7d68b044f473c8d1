"""Homes of engines: threads of the serving process, or a process of their own; and the loops that drive them there."""
