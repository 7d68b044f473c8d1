"""The operating system: readings, control groups, pages, heap, descriptors."""
