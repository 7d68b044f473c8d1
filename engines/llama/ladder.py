"""The rungs of a llama.cpp engine, and the memory that it can give back."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engine_abilities import Access
from edgeserve.engines.llama import adapters, draft_file
from edgeserve.engines.llama import estimate as llama_estimate
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.gguf import Shape, read_shape
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.options import DEFAULT_CONTEXT, context_size, longest_draft, read_options, warn_of_length
from edgeserve.engines.llama.states_folder import StatesFolder
from edgeserve.errors import EngineFailure
from edgeserve.system import growth, heap, pages

if TYPE_CHECKING:  # a worker is ready before it needs these
    from edgeserve.engines.llama.batch import Batch
    from edgeserve.engines.llama.context import Context
    from edgeserve.engines.llama.draft_model import DraftModel
    from edgeserve.engines.llama.drafts import Drafts
    from edgeserve.engines.llama.probe import Layout
    from edgeserve.engines.llama.template import ChatTemplate

log = logging.getLogger("edgeserve.llama")


class LlamaLadder:
    """Files: ``model``, and ``draft`` of a model that guesses tokens. Options: engines/llama/options.py.

    - Warm: the model file is mapped, no page of the weights is resident. The vocabulary and saved states are private.
    - Hot: the weights are resident, and there is a context.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._configured = self.options = draft_file.wanted(read_options(spec.job, spec.options), spec)
        self._saved = PrefixCache(0)
        self._model: MappedModel | None = None
        self._weights: MappedModel | None = None
        self._batch: Batch | None = None
        self._template: ChatTemplate | None = None
        self._shape: Shape | None = None
        self._copy = self._token = 0
        """Bytes of the private copy of the weights that the hot engine has, and of one token of context."""
        self._draft: Layout | None = None  # memory of the draft model
        self._grown = dict.fromkeys(Rung, growth.Grown())

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.WARM if self._batch is None else Rung.HOT

    @property
    def context_tokens(self) -> int | None:
        batch = self._batch  # another thread may set it to None
        return batch.context.size if batch is not None else None

    def estimate(self) -> Footprint:
        shape, full = self._read_shape(), self._configured
        layout = llama_estimate.lay_out(self.spec, shape, full)
        self._token = layout.token + layout.device_token
        fewer = context_size(full, shape.trained_context) - context_size(self.options, shape.trained_context)
        now = dataclasses.replace(full, reordered=self.options.reordered)
        found = llama_estimate.footprint(self.spec, layout, now, fewer)
        if not self.options.drafting:
            return found
        self._draft = draft_file.lay_out(self.spec, full, shape.trained_context)
        return draft_file.beside(found, self.spec, self._draft, fewer)

    def footprint(self) -> Footprint:
        """The memory of the present rung, without the saved states, which ``savings`` reports."""
        rung, weights = self.rung, self._weights  # another thread may set it to None
        grown = self._grown[rung]
        if rung is not Rung.HOT or weights is None:
            return Footprint(private=grown.bytes, exact=grown.exact)
        draft = self.spec.files.get(draft_file.ROLE)
        other = pages.resident_mapped(draft) if draft not in (None, self.spec.files["model"]) else 0
        return Footprint(mapped=weights.resident() + other, private=grown.bytes, exact=grown.exact)

    def open(self) -> None:
        if self._model is None:
            growing = growth.Growth()
            self._check_files()
            self._model = self._acquire(repack=False)
            self._measure_token()
            warn_of_length(self.spec, self._configured, self._read_shape().trained_context)
            self._saved = self._make_cache(self._model)
            self._grown[Rung.WARM] = growing.end()

    def heat(self) -> None:
        if self._model is None:
            raise EngineFailure(f"{self.spec.name} is cold; open it first")
        if self._batch is None:
            from edgeserve.engines.llama.batch import Batch  # before: ``park`` does not give the module back

            growing = growth.Growth(pages.private_bytes_now)
            self._check_files()  # a file may have been replaced since
            self._copy, self._weights = self._copied, self._acquire(repack=self.options.reordered)
            resident = self._weights.heat()  # on other cores, while the context is made
            try:
                self._batch = self._make_batch(Batch, self._weights)
            except BaseException:
                resident()
                self._weights.cool()
                self._free_weights()
                raise
            self._grown[Rung.HOT] = self._grown[Rung.WARM] + growing.end()
            resident()
            if not self._configured.context:
                size, trained = self._batch.context.size, self._read_shape().trained_context
                log.info("%s: context of %d tokens; it was trained on %d", self.spec.name, size, trained)

    def park(self) -> None:
        """Free the context; conversations worth saving stay as saved states."""
        if self._batch is not None:
            self._batch.save()
            self._cool()

    def close(self) -> None:
        self._saved.limit = 0  # so that every state is written to disk, where that is configured
        if self._batch is not None:
            self._batch.save()
        self._saved.give_back(self._saved.held)
        self._cool()
        if self._model is not None:
            llama_model.release(self._model)
            self._template = self._model = None

    def _cool(self) -> None:
        if self._weights is not None and self._batch is not None:
            if self._batch.draft_model is not None:
                self._batch.draft_model.free()
            self._free_context(self._batch.context)
            self._weights.adapters.release()
            self._batch = None
            self._weights.cool()
            self._free_weights()
            heap.trim()

    @property
    def _states_folder(self) -> StatesFolder | None:
        options = self._configured
        if not options.prefix_cache_disk_mb or not options.prefix_cache_dir:
            return None
        limit = None if options.prefix_cache_disk_mb == "auto" else options.prefix_cache_disk_mb << 20
        return StatesFolder(Path(options.prefix_cache_dir), self.spec.id, limit)

    def access(self) -> Access:
        """The folder of states on disk, where there is one. llama.cpp takes any GPU, unless the options forbid it."""
        folder = self._states_folder
        write, tidy = ((folder.path,), (folder.pool,)) if folder else ((), ())
        return Access(write=write, tidy=tidy if tidy != write else (), gpu=self.spec.device != "cpu")

    def _read_shape(self) -> Shape:
        """The shape of the model, read from the file once. Raises EngineFailure."""
        if self._shape is None:
            self._shape = read_shape(self.spec.files["model"])
        return self._shape

    def _make_cache(self, model: MappedModel) -> PrefixCache:
        whole, folder, disk = not model.cuttable, self._states_folder, None
        if folder is not None:
            from edgeserve.engines.llama import state_writer, states  # most servers keep none

            key = states.states_key(model.path, self.options)
            disk = state_writer.StateWriter(states.StateFiles(folder, key, whole=whole))
            log.info("%s: conversations are kept in %s, in clear", self.spec.name, folder.path)
        return PrefixCache(self.options.prefix_cache_mb << 20, whole=whole, disk=disk)

    def _make_batch(self, kind: type[Batch], weights: MappedModel) -> Batch:
        """The slots of a new context, with the draft model where there is one. Raises EngineFailure."""
        context = self._make_adapted_context(weights)
        try:
            wanted = self.options.drafting and context.removable
            model = draft_file.open_model(self.spec, self.options, context) if wanted else None
        except BaseException:
            self._free_context(context)
            weights.adapters.release()
            raise
        drafts = self._make_drafts(context, model)
        return kind(context, self.options.parallel, self._saved, drafts, model, context.beside)

    def _make_drafts(self, context: Context, model: DraftModel | None = None) -> Drafts:
        """Drafts of a context, none for a model that cannot remove refused tokens from its memory."""
        from edgeserve.engines.llama.drafts import Drafts
        from edgeserve.engines.llama.model import vocabulary_size

        longest = longest_draft(self.options, vocabulary_size(context.model.handle))
        return Drafts(longest if context.removable else 0, model=model)

    def _measure_token(self) -> None:
        """Find the bytes of one token of context, unless ``estimate`` has: by the shape, exactly for a sliding window.

        The exact way takes 0.3 s, which the start of a server should not take.
        """
        if not self._configured.context and self._read_shape().window:
            self.estimate()
        self._token = self._token or llama_estimate.by_shape(self._read_shape(), self._configured).token
        if self._configured.drafting and self._draft is None:
            self._draft = draft_file.by_header(self.spec, self._configured, self._read_shape().trained_context)

    def _check_files(self) -> None:
        for path in adapters.paths_of(self.spec):
            adapters.check(path, self.spec.files["model"])
        if self._configured.drafting:
            draft_file.check(self.spec.files[draft_file.ROLE], self.spec.files["model"])

    def _acquire(self, *, repack: bool) -> MappedModel:
        path, paths = self.spec.files["model"], adapters.paths_of(self.spec)
        return llama_model.acquire(path, self.spec.device, self.options, repack=repack, adapters=paths)

    def _make_adapted_context(self, model: MappedModel) -> Context:
        """A context of a model whose adapters are held. Raises EngineFailure, and holds none then."""
        model.adapters.hold(model.handle)
        try:
            return self._make_context(model)
        except BaseException:
            model.adapters.release()
            raise

    def _longest_text(self) -> int:
        """Tokens of a text that is read whole: no positions beyond the model's training, even in a larger context."""
        return context_size(self.options, self._read_shape().trained_context)

    def _make_context(self, model: MappedModel) -> Context:
        from edgeserve.engines.llama.context import Context

        return Context(model, self.options, self.spec.threads)

    def _free_context(self, context: Context) -> None:
        context.free()

    def _free_weights(self) -> None:
        if self._weights is not None:
            llama_model.release(self._weights)
            self._weights = None

    # Memory that the engine can give back (edgeserve.engine_abilities.Thrifty)

    def savings(self) -> Mapping[str, int]:
        """Bytes of the saved states, and those that mapped weights or a smaller context save on the next way up."""
        span = self._span
        optional = span.savable(DEFAULT_CONTEXT) if not self._configured.context else 0
        return {
            "prefix_cache": self._saved.held,
            "reordered": self._copied,
            "copy": self._copy if self.rung is Rung.HOT else 0,
            "draft": self._drafting,
            "optional_context": optional,
            "context": span.savable() - optional,
        }

    def shed(self, kind: str, amount: int) -> None:
        if kind == "prefix_cache":
            self._saved.give_back(amount)
            if self.rung is Rung.HOT:  # otherwise copies took none of that memory, or the engine has long been idle
                self._saved.stop_copies()
            heap.trim()
        elif kind in ("optional_context", "context") and self.rung is not Rung.HOT:
            least = DEFAULT_CONTEXT if kind == "optional_context" else llama_estimate.SMALLEST_CONTEXT
            self._measure_token()  # an engine that lives in a worker is never opened here
            self.options = dataclasses.replace(self.options, context=self._span.without(amount, least))
        elif kind == "reordered" and self.rung is not Rung.HOT:
            self.options = dataclasses.replace(self.options, reordered=False)
        elif kind == "draft" and self.rung is not Rung.HOT:
            self.options = dataclasses.replace(self.options, drafting=False)

    def keep(self, most: int) -> None:
        self._saved.room = most

    @property
    def _copied(self) -> int:
        """Bytes of the private copy of the weights that ``heat`` will make of its own accord."""
        own = self.options.reordered and self._configured.repack == "auto" and self.rung is not Rung.HOT
        return llama_estimate.copy_bytes(self.spec) if own else 0

    @property
    def _drafting(self) -> int:
        """Private bytes of the draft model that ``heat`` will open."""
        taken = self._draft if self.options.drafting and self.rung is not Rung.HOT else None
        return taken.model + taken.context if taken is not None else 0

    @property
    def _span(self) -> llama_estimate.Span:
        """The context that ``heat`` will make; empty while there is one, and before the model is opened."""
        if self._shape is None or self.rung is Rung.HOT:
            return llama_estimate.Span(0, 0)
        return llama_estimate.Span(context_size(self.options, self._shape.trained_context), self._token)

    def restore(self) -> None:
        self.options = self._configured
