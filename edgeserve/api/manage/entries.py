"""The routes that manage a running server: in its own words, and in llama-server's."""

from __future__ import annotations

import dataclasses

from edgeserve.api import sse
from edgeserve.api.entry import Entry

ADMIN = (
    Entry(
        "POST",
        "/admin/pull",
        "Pull a model; the progress as events",
        "edgeserve.api.manage.pulls:pull",
        "PullOrder",
        sse.MEDIA_TYPE,
    ),
    Entry("GET", "/admin/pulls", "Pulls under way and lately ended", "edgeserve.api.manage.pulls:list_pulls"),
    Entry(
        "GET",
        "/admin/pulls/{model:path}",
        "The progress of a pull",
        "edgeserve.api.manage.pulls:follow",
        answer=sse.MEDIA_TYPE,
    ),
    Entry("DELETE", "/admin/pulls/{model:path}", "Cancel a pull", "edgeserve.api.manage.pulls:cancel"),
    Entry("GET", "/admin/models", "Models on this device", "edgeserve.api.manage.models:list_stored"),
    Entry("GET", "/admin/recommend", "Models that suit this machine", "edgeserve.api.manage.advice:recommend"),
    Entry("DELETE", "/admin/models/{model:path}", "Delete a model's files", "edgeserve.api.manage.models:remove"),
    Entry("POST", "/admin/load", "Bring a model up to warm or hot", "edgeserve.api.manage.models:load", "Load"),
    Entry("POST", "/admin/unload", "Let a model down to warm or cold", "edgeserve.api.manage.models:unload", "Unload"),
    Entry("GET", "/admin/config", "Settings in force, and those that may change", "edgeserve.api.manage.settings:show"),
    Entry(
        "PATCH",
        "/admin/config",
        "Change settings until the next reload",
        "edgeserve.api.manage.settings:change",
        "SettingsPatch",
    ),
    Entry("POST", "/admin/reload", "Read the settings again", "edgeserve.api.manage.settings:reload"),
)
ROUTER = (
    Entry(
        "GET", "/models", "llama-server's list of models", "edgeserve.api.manage.router:list_models", asked="Listing"
    ),
    Entry("POST", "/models", "llama-server's pull", "edgeserve.api.manage.router:pull", "RouterModel"),
    Entry("DELETE", "/models", "llama-server's removal", "edgeserve.api.manage.router:remove", asked="Chosen"),
    Entry("POST", "/models/load", "llama-server's load", "edgeserve.api.manage.router:load", "RouterModel"),
    Entry("POST", "/models/unload", "llama-server's unload", "edgeserve.api.manage.router:unload", "RouterModel"),
    Entry(
        "GET",
        "/models/sse",
        "llama-server's events of models",
        "edgeserve.api.manage.router:events",
        answer=sse.MEDIA_TYPE,
    ),
)
MANAGE = tuple(dataclasses.replace(one, owner=True) for one in (*ADMIN, *ROUTER))
