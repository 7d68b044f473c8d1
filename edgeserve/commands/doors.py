"""Arguments of the commands about the way in: keys, codes, the service, and the port of ``serve``."""

from __future__ import annotations

import argparse
from typing import Any

from edgeserve.commands.arguments import AddCommand
from edgeserve.keys.key import MOST, SCOPES


def serve_options(parser: Any) -> None:
    parser.add_argument("--tls", choices=("off", "self-signed"), help="https, with a certificate of the server's own")
    parser.add_argument("--tls-cert", metavar="FILE", help="https, with this certificate, a PEM file")
    parser.add_argument("--tls-key", metavar="FILE", help="key of the certificate, a PEM file")
    parser.add_argument("--idle-exit", type=float, metavar="SECONDS", help="end when nobody asks for so long (never)")
    parser.add_argument("--qr", action="store_true", help="print a QR code of the address and the key")


def key(commands: Any, command: AddCommand) -> None:
    parser = commands.add_parser("key", help="make, list and revoke keys", description="Make, list and revoke keys.")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    added = command(actions, "add", "keys:add", "make a key and print it, once")
    added.add_argument("name", metavar="NAME", help="name of the key, such as that of a device or a person")
    added.add_argument("--scope", choices=SCOPES, default="use", help="admin also manages the server (use)")
    added.add_argument("--per-minute", type=_limit, metavar="N", help="most requests a minute (no limit)")
    added.add_argument("--at-once", type=_limit, metavar="N", help="most requests at once (no limit)")
    added.add_argument("--qr", action="store_true", help="print a QR code of the address and the key, too")
    command(actions, "list", "keys:list_keys", "list the keys")
    revoked = command(actions, "revoke", "keys:revoke", "take a key away")
    revoked.add_argument("name", metavar="NAME", help="name of the key")


def qr(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "qr", "qr:qr", "print the address and the key as a QR code, for telephones")
    parser.add_argument("--url", metavar="URL", help="address to show (the one of the settings)")
    parser.add_argument("--no-key", action="store_true", help="leave the key out")


def health(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "health", "health:health", "say whether the running server is well")
    parser.add_argument("--url", metavar="URL", help="address of the server ($EDGESERVE_URL, else as in the settings)")
    parser.add_argument("--port", type=int, help="port of the server on this machine (8080)")


def service(commands: Any, command: AddCommand) -> None:
    text = "run the server as a service of the system"
    parser = commands.add_parser("service", help=text, description=f"{text.capitalize()}.")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    installed = command(actions, "install", "service:install", "write the service, and start it now and at each boot")
    _whose(installed)
    installed.add_argument("--socket", action="store_true", help="start with the first connection; end when idle")
    installed.add_argument("--run-as", metavar="USER", help="user of a system service (one of its own)")
    installed.add_argument("--print", action="store_true", dest="shown", help="print the files; write nothing")
    installed.add_argument("--no-start", action="store_true", help="write the files; start nothing")
    _whose(command(actions, "uninstall", "service:uninstall", "stop the service and remove its files"))
    _whose(command(actions, "status", "service:status", "say whether the service is installed and runs"))


def _whose(parser: Any) -> None:
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--user", action="store_const", const="user", dest="whose", help="a service of this user")
    whose.add_argument(
        "--system", action="store_const", const="system", dest="whose", help="a service of the machine (for root)"
    )


def _limit(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST}, not {text}")
    return value
