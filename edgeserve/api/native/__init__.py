"""The native dialect: small bodies, plain answers."""
