"""``edgeserve key add``, ``list`` and ``revoke``: named keys of the server, in their file."""

from __future__ import annotations

import sys
import time

from edgeserve.commands import Call
from edgeserve.errors import InvalidRequest, NotFound
from edgeserve.keys import file
from edgeserve.keys.key import NAME, Key, digest_of, make_token
from edgeserve.own_files import keys_path
from edgeserve.terminal import table

HEADS = ("name", "scope", "a minute", "at once", "created")


def add(call: Call) -> int:
    """Make a key. Its token goes to stdout, and nowhere else; words for people go to stderr."""
    args, config = call.args, call.config()
    if not NAME.fullmatch(args.name) or args.name == file.OWN_NAME:
        raise InvalidRequest(
            f"{args.name[:80]!r} is no name of a key: expected up to 64 letters, digits, dots, dashes and "
            f"underscores, and not {file.OWN_NAME}"
        )
    path = keys_path(config, call.store(config))
    token = make_token()
    created = time.strftime("%Y-%m-%d", time.gmtime())
    key = Key(args.name, digest_of(token.encode()), args.scope, args.per_minute or 0, args.at_once or 0, created)
    with file.changing(path) as keys:
        if any(one.name == key.name for one in keys):
            raise InvalidRequest(f"there is a key {key.name!r}: choose another name, or revoke that key")
        if len(keys) >= file.MOST_KEYS:
            raise InvalidRequest(f"{path} has {len(keys)} keys, the most that it may have: revoke some")
        file.write(path, [*keys, key])
    print(f"{path}: added {key.name}, scope {key.scope}. The key is shown once; a running server takes it at once:",
          file=sys.stderr, flush=True)  # fmt: skip
    print(token, flush=True)
    if args.qr:
        from edgeserve.commands.qr import code, here

        print(code(here(config), token), file=sys.stderr)
    return 0


def list_keys(call: Call) -> int:
    """Print the keys, without their tokens, which nobody knows any more."""
    config = call.config()
    path = keys_path(config, call.store(config))
    keys = file.read(path)
    if keys is None:
        print(f"There are no named keys: {path} is not there.")
    else:
        rows = [[one.name, one.scope, _limit(one.per_minute), _limit(one.at_once), one.created] for one in keys]
        print(table(HEADS, rows) if rows else f"{path} has no key left: the server lets nobody in by it.")
    return 0


def _limit(value: int) -> str:
    return str(value) if value else "-"


def revoke(call: Call) -> int:
    """Take a key out of the file. Answers under way end as usual."""
    config, name = call.config(), call.args.name
    path = keys_path(config, call.store(config))
    if not path.parent.is_dir():
        raise NotFound(f"there are no named keys: {path} is not there")
    with file.changing(path) as keys:
        left = [one for one in keys if one.name != name]
        if len(left) == len(keys):
            named = ", ".join(one.name for one in keys) or "none"
            raise NotFound(f"there is no key {name[:80]!r}; keys: {named}")
        file.write(path, left)
    print(f"{path}: revoked {name}")
    return 0
