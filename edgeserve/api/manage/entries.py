"""The routes that manage a running server: in its own words, and in llama-server's."""

from __future__ import annotations

import dataclasses

from edgeserve.api import sse
from edgeserve.api.entry import Entry
from edgeserve.api.manage import models, pulls, router, settings

ADMIN = (
    Entry("POST", "/admin/pull", "Pull a model; the progress as events", pulls.pull, pulls.PullOrder, sse.MEDIA_TYPE),
    Entry("GET", "/admin/pulls", "Pulls under way and lately ended", pulls.list_pulls),
    Entry("GET", "/admin/pulls/{model:path}", "The progress of a pull", pulls.follow, answer=sse.MEDIA_TYPE),
    Entry("DELETE", "/admin/pulls/{model:path}", "Cancel a pull", pulls.cancel),
    Entry("DELETE", "/admin/models/{model:path}", "Delete a model's files", models.remove),
    Entry("POST", "/admin/load", "Bring a model up to warm or hot", models.load, models.Load),
    Entry("POST", "/admin/unload", "Let a model down to warm or cold", models.unload, models.Unload),
    Entry("GET", "/admin/config", "Settings in force, and those that may change", settings.show),
    Entry("PATCH", "/admin/config", "Change settings until the next reload", settings.change, settings.SettingsPatch),
    Entry("POST", "/admin/reload", "Read the settings again", settings.reload),
)
ROUTER = (
    Entry("GET", "/models", "llama-server's list of models", router.list_models, query=router.Listing),
    Entry("POST", "/models", "llama-server's pull", router.pull, router.RouterModel),
    Entry("DELETE", "/models", "llama-server's removal", router.remove, query=router.Chosen),
    Entry("POST", "/models/load", "llama-server's load", router.load, router.RouterModel),
    Entry("POST", "/models/unload", "llama-server's unload", router.unload, router.RouterModel),
    Entry("GET", "/models/sse", "llama-server's events of models", router.events, answer=sse.MEDIA_TYPE),
)
MANAGE = tuple(dataclasses.replace(one, owner=True) for one in (*ADMIN, *ROUTER))
