"""The certificate of the server: read again when it changes, or made by the server itself."""
