"""Processes beside the serving process: their start and end, and the messages that cross the border."""
