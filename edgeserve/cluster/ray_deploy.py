"""Deploys the application on a Ray cluster that runs: ``python -m edgeserve.cluster.ray_deploy``, a plan on stdin.

A process of its own, because Ray reads its environment while it is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def deploy(address: str, host: str, port: int, plan: Mapping[str, Any]) -> None:
    """Run the plan on the cluster at ``address``; clients reach it at ``host`` and ``port``.

    The application stays when this process ends. Raises RuntimeError when a replica cannot start.
    """
    import ray
    from ray import serve

    from edgeserve.cluster.ray_app import APP, Plan, application

    ray.init(address=address, log_to_driver=False, logging_level="ERROR", namespace=APP)
    serve.start(proxy_location="Disabled")
    made = Plan(host, port, plan["least"], plan["most"], plan["key"], tuple(plan["owner"]), tuple(plan["command"]))
    serve.run(application(made), name=APP, route_prefix=None)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    deploy(given["address"], given["host"], given["port"], given["plan"])
