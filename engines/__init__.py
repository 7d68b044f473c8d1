"""One file per runtime and job; reached only through the import strings in ``edgeserve.jobs``.

Modules here import ``edgeserve.{engine,messages,errors}`` and their own runtime, the latter inside ``open()``.
"""
