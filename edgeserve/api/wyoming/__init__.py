"""Wyoming, the protocol of Home Assistant's voice assistants: events over a plain connection, without HTTP."""
