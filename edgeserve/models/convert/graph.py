"""Writer of ONNX graphs: nodes in one file, weights in another, each weight on a page of its own to be mapped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from edgeserve.errors import StoreError

OPSET = 20
PAGE = 4096
INLINE_BYTES = 1024
"""Smaller constants stay in the graph: a page each would waste more memory than mapping saves."""
COLUMNS = 4096
"""Columns of a matrix that are rounded at once."""


def load_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise StoreError("converting a checkpoint needs the package onnx: pip install onnx") from None
    return onnx


class GraphWriter:
    """Collects nodes; ``save`` writes them to ``path``. Weights are written to ``path`` + ".data" at once."""

    def __init__(self, path: Path) -> None:
        self.onnx = load_onnx()
        self.path = path
        self._data: BinaryIO = path.with_name(path.name + ".data").open("wb")
        self._nodes: list[Any] = []
        self._weights: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._named: dict[str, str] = {}  # output values by their names as results of nodes

    def __enter__(self) -> GraphWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data.close()

    def input(self, name: str, shape: list[int | str], dtype: str = "FLOAT") -> str:
        self._inputs.append(self._value(name, shape, dtype))
        return name

    def output(self, name: str, shape: list[int | str], value: str) -> None:
        """Name an output of the graph. Each value has one name: a second one would need a node that copies."""
        self._named[value] = name
        self._outputs.append(self._value(name, shape, "FLOAT"))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; returns the name of its output, or a list of names."""
        names = [f"{kind}_{len(self._nodes)}_{index}" for index in range(outputs)]
        self._nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def product_in_int8(self, name: str, value: str, weight: Any, *bias: str) -> str:
        """Append the product of ``value`` and a float32 matrix [k, n], stored as symmetric int8 with a scale a column.

        The runtime rounds ``value`` to 8 bits, and returns float32.
        """
        import numpy

        scale = numpy.maximum(weight.max(axis=0), -weight.min(axis=0)) / 127
        scale[scale == 0] = 1
        rounded = numpy.empty(weight.shape, numpy.int8)
        for start in range(0, weight.shape[1], COLUMNS):  # in parts: no second float32 copy of the largest matrix
            part = slice(start, start + COLUMNS)
            rounded[:, part] = numpy.rint(weight[:, part] / scale[part])
        matrix = self.constant(f"{name}/int8", rounded)
        scales = self.constant(f"{name}/scale", scale)
        zeros = self.constant(f"{name}/zero", numpy.zeros(len(scale), numpy.int8))
        return str(self.node("DynamicQuantizeMatMul", value, matrix, scales, zeros, *bias, domain="com.microsoft"))

    def constant(self, name: str, array: Any) -> str:
        """Add an initializer. Each name is written once; a large one begins on a page of the data file."""
        if name in self._weights:
            return name
        import numpy

        array = numpy.ascontiguousarray(array)
        if array.nbytes <= INLINE_BYTES:
            self._weights[name] = self.onnx.numpy_helper.from_array(array, name)
            return name
        offset = self.block(array)
        tensor = self.onnx.TensorProto(name=name, dims=array.shape)
        tensor.data_type = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.data_location = self.onnx.TensorProto.EXTERNAL
        place = {"location": self.path.name + ".data", "offset": offset, "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self._weights[name] = tensor
        return name

    def block(self, array: Any) -> int:
        """Append an array to the data file, on a new page; returns its offset."""
        self._data.seek(-self._data.tell() % PAGE, 1)
        offset = self._data.tell()
        self._data.write(memoryview(array).cast("B"))
        return offset

    def place(self, name: str) -> int:
        """Offset of a large constant in the data file."""
        return next(int(entry.value) for entry in self._weights[name].external_data if entry.key == "offset")

    def integers(self, *values: int) -> str:
        import numpy

        return self.constant("i_" + "_".join(map(str, values)).replace("-", "m"), numpy.array(values, numpy.int64))

    def save(self, name: str) -> None:
        helper = self.onnx.helper
        for node in self._nodes:
            node.input[:] = [self._named.get(one, one) for one in node.input]
            node.output[:] = [self._named.get(one, one) for one in node.output]
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, list(self._weights.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="edgeserve", ir_version=9)
        self.path.write_bytes(model.SerializeToString())

    def _value(self, name: str, shape: list[int | str], dtype: str) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, dtype), shape)
