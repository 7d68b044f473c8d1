"""Engines: a folder for each runtime or job. The server reaches them through import strings only (``edgeserve.jobs``).

They import the server's contract and ``edgeserve.system``. An engine imports its runtime inside ``open()``.
"""
