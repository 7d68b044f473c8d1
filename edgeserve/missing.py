"""Configured models that are missing or unusable, in one error with the commands that bring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edgeserve.config import Config
from edgeserve.errors import ModelDamaged, ModelMissing, ModelUnknown, StoreError
from edgeserve.jobs import STARTER, table_of
from edgeserve.models import catalog, needs
from edgeserve.models.store import Store, StoredModel


def find_all(config: Config, store: Store) -> Mapping[str, StoredModel]:
    """The configured models by id. Raises one StoreError, or a kind of it, about all that are unusable."""
    found: dict[str, StoredModel] = {}
    gone: dict[str, StoreError] = {}
    unusable: list[StoreError] = []
    for model, key, name in _named(config):
        try:
            stored = store.find(name)
            if key == "model":
                found[model] = stored
        except ModelMissing as error:
            if catalog.knows(name):
                gone[catalog.find(name).name] = error
            else:
                unusable.append(_placed(config, model, key, error))
        except ModelDamaged as error:
            unusable.append(error)
        except StoreError as error:
            unusable.append(_placed(config, model, key, error))
    if gone or unusable:
        lacking = [need for _, _, name in _named(config) for need in store.needed(name)]
        raise _error(gone, unusable, lacking, config)
    return found


def _named(config: Config) -> Iterator[tuple[str, str, str]]:
    """The id of each model, and the keys with the names of models that it needs."""
    for model, settings in config.models.items():
        yield from ((model, key, name) for key, name in zip(("model", "draft"), settings.named, strict=False))


def _placed(config: Config, model: str, key: str, error: StoreError) -> StoreError:
    """The error with the line of models.toml that holds the model's name; a flag or a variable has no line."""
    if not config.in_file(table_of(model), key):
        return error
    return type(error)(f"{config.label(table_of(model), key)}: {error.message}", param=error.param)


def _error(
    gone: Mapping[str, StoreError], unusable: Sequence[StoreError], lacking: Sequence[needs.Need], config: Config
) -> StoreError:
    alone = [*gone.values(), *unusable]
    if len(alone) == 1 and not lacking:
        return alone[0]
    told = [error.message for error in unusable]
    if gone:
        models = f"not on this device: {', '.join(gone)}"
        install = f"{needs.command(lacking)} (for {needs.packages(lacking)}), then " if lacking else ""
        told.insert(0, f"{models}; {install}`edgeserve pull {_names(gone, config)}`")
    elif lacking:
        told.append(f"{needs.packages(lacking)} not installed: {needs.command(lacking)}")
    if any(isinstance(error, ModelUnknown) for error in unusable):
        return ModelUnknown("; ".join(told))
    kind = ModelMissing if gone and not unusable else StoreError
    return kind("; ".join(told))


def _names(gone: Mapping[str, object], config: Config) -> str:
    """Names of the missing models for ``edgeserve pull``; the word for all starter models where it fits."""
    starter = set(STARTER.values())
    named = (name for _, _, name in _named(config))
    configured = {catalog.find(name).name if catalog.knows(name) else name for name in named}
    return catalog.ALL_STARTER if len(gone) > 1 and configured <= starter else " ".join(gone)
