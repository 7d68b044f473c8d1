"""Arguments of the commands about models on this device, and about the device."""

from __future__ import annotations

from typing import Any

from edgeserve.commands.arguments import AddCommand, positive
from edgeserve.jobs import ALL_JOBS


def add(commands: Any, command: AddCommand) -> None:
    for one in (_list, _show, _init, _verify, _clean, _update, _tune, _remove, _doctor, _recommend):
        one(commands, command)


def _list(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "list", "models:list_models", "list the models on this device")
    parser.add_argument("--all", action="store_true", help="add the catalogue's other models")


def _show(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "show", "models:show", "show source, licence and files of a model")
    parser.add_argument("name", metavar="NAME", help="name of the model")


def _init(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "init", "init:init", "write a models.toml that suits this machine")
    parser.add_argument("-o", "--output", default="models.toml", metavar="FILE", help="file to write (%(default)s)")
    parser.add_argument("--job", action="append", choices=ALL_JOBS, help="only this job; may be repeated")
    parser.add_argument("--share", action="store_true", help="let other machines in, with a key that is made up now")
    parser.add_argument("--starter", action="store_true", help="take the starter models, which suit any machine")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def _verify(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "verify", "upkeep:verify", "compare the files of models with their checksums")
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a model; without one: all on this device")


def _clean(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "clean", "upkeep:clean", "delete what interrupted pulls and removals left")
    parser.add_argument("--unused", action="store_true", help="also models that the settings do not name")
    parser.add_argument("--yes", action="store_true", help="ask nothing")


def _update(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "update", "upkeep:update", "pull the models again that changed in the catalogue")
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a model; without one: all on this device")
    parser.add_argument("--check", action="store_true", help="only say which; ends with 1 when there are any")
    parser.add_argument("--yes", action="store_true", help="ask nothing, also where a running server uses the model")


def _tune(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "tune", "tune:tune", "measure the fastest settings of a model on this machine")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    parser.add_argument("--force", action="store_true", help="keep the figures though other programs were busy")


def _remove(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "remove", "models:remove", "delete a model's files")
    parser.add_argument("name", metavar="NAME", help="name of the model")


def _doctor(commands: Any, command: AddCommand) -> None:
    parser = command(
        commands, "doctor", "doctor:doctor", "report this machine, the models that fit, and what is missing"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _recommend(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "recommend", "recommend:recommend", "say which models suit this machine")
    parser.add_argument("--job", action="append", choices=ALL_JOBS, help="only models for this job; may be repeated")
    parser.add_argument("--all", action="store_true", help="add the models that do not suit, with the reason")
    parser.add_argument("--memory", type=positive, metavar="MB", help="advise a machine of so much memory")
    parser.add_argument("--calibrate", action="store_true", help="measure the speed of this machine again")
    parser.add_argument("--json", action="store_true", help="print the advice as JSON")
