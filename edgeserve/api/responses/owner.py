"""The client whose responses are stored."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve import clients
from edgeserve.api import cache_salt
from edgeserve.api.auth import client_of
from edgeserve.api.responses.store import Owner


def owner_of(request: Request) -> Owner:
    """The owner by key and address. A key counts also where the server asks for none.

    Clients with the key of the server are one owner wherever they are. A network shares one place in the store,
    whatever keys its clients send.
    """
    client = client_of(request.scope)
    owner = client.owner
    name = (owner.key, owner.address, cache_salt.salt(request, ""))
    return Owner(name, (client.key, clients.client_of(client.address)))
