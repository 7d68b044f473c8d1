"""The server as a service: units of systemd, a property list of launchd, and their way into the system."""
