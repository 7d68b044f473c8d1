"""The subcommands, one file a topic, and the call that each receives."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgeserve.dataclass import dataclass
from edgeserve.jobs import INFO

if TYPE_CHECKING:
    from edgeserve.config import Config
    from edgeserve.models.store import Store
    from edgeserve.residency.pool import Pool

PoolBuilder = Callable[["Config"], "Pool"]

FLAGS = (
    "host",
    "port",
    "wyoming",
    *(one.variable.lower() for one in INFO.values()),
    "mmproj",
    "device",
    "idle_timeout",
    "preload",
    "log_level",
    "log_format",
    "tls",
    "tls_cert",
    "tls_key",
    "idle_exit",
)
"""Options that win over the variables of the same name."""


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a subcommand: arguments, environment, and the builder of its engines."""

    args: argparse.Namespace
    environ: Mapping[str, str]
    build_pool: PoolBuilder | None = None

    def config(self) -> Config:
        """The settings. Raises ConfigError."""
        from edgeserve import config

        given = {name.upper(): getattr(self.args, name, None) for name in FLAGS}
        named = self.args.config
        return config.load(self.environ, path=None if named is None else Path(named), flags=given)

    def store(self, config: Config) -> Store:
        """The store in models_dir of the settings, else in the user's data folder."""
        from edgeserve.models.folder import default_root, expanded
        from edgeserve.models.store import Store

        named = config.server.models_dir
        return Store(expanded(named, config.label("server", "models_dir")) if named else default_root(self.environ))

    def pool(self, config: Config) -> Pool:
        """The configured engines. Raises ModelMissing and ConfigError."""
        if self.build_pool is not None:
            return self.build_pool(config)
        from edgeserve import assembly

        return assembly.build_pool(config, self.store(config))
