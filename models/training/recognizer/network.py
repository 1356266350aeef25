"""A recogniser's ONNX graph as a torch module: what is trained is what runs.

The graph stays the only description of the network: its float tensors become parameters, its nodes are carried out
one by one, and after training the tensors are written back under their own names. Nothing is exported by tracing, so
the trained network differs from the given one in its numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import numpy_helper

LOGITS_AXIS = 2
Attributes = Mapping[str, Any]
Inputs = Sequence[Any]


class OnnxNetwork(torch.nn.Module):
    """Input float32 [lines, 3, 48, width] in -1..1, output logits [lines, frames, classes].

    Statistics of batch normalisation stay as they are: lines of a batch do not see one another.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        """Take over every tensor of ``model``.

        Raises:
            ValueError: the graph has an operation that this module does not know, or its last one is no softmax.
        """
        super().__init__()
        self._nodes = _simplified(list(model.graph.node))
        if self._nodes[-1].op_type != "Softmax":
            raise ValueError(f"the last operation is {self._nodes[-1].op_type}, expected Softmax")
        if unknown := {node.op_type for node in self._nodes} - OPERATIONS.keys():
            raise ValueError(f"no rule for the operations {sorted(unknown)}")
        self._input = model.graph.input[0].name
        self._constants: dict[str, torch.Tensor] = {}
        self._attributes = {node.output[0]: _attributes(node) for node in self._nodes}
        statistics = {name for node in self._nodes if node.op_type == "BatchNormalization" for name in node.input[3:]}
        self.weights = torch.nn.ParameterDict()
        for tensor in model.graph.initializer:
            values = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            if values.is_floating_point() and values.numel() > 1 and tensor.name not in statistics:
                self.weights[_key(tensor.name)] = torch.nn.Parameter(values)
            else:
                self._constants[tensor.name] = values

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of ``images``."""
        values: dict[str, Any] = {self._input: images, "": None}
        for node in self._nodes[:-1]:
            inputs = [self._value(name, values) for name in node.input]
            values[node.output[0]] = OPERATIONS[node.op_type](inputs, self._attributes[node.output[0]])
        logits: torch.Tensor = values[self._nodes[-1].input[0]]
        return logits

    def _value(self, name: str, values: Mapping[str, Any]) -> Any:
        if name in values:
            return values[name]
        key = _key(name)
        return self.weights[key] if key in self.weights else self._constants[name]

    def written_to(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return a copy of ``model`` with the weights of this module."""
        written = onnx.ModelProto()
        written.CopyFrom(model)
        for tensor in written.graph.initializer:
            key = _key(tensor.name)
            if key in self.weights:
                values = self.weights[key].detach().float().cpu().numpy()
                tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))
        return written


def with_head(model: onnx.ModelProto, rows: Sequence[int | None], like: Sequence[int]) -> onnx.ModelProto:
    """Return ``model`` with a character head of the classes ``rows``; a new class begins as its ``like`` does.

    Args:
        model: network whose last product is with the head's weights [features, classes].
        rows: for each new class the class of ``model`` that it is, or None.
        like: for each new class the class that it begins as where ``rows`` has None.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    product, bias = head_names(changed)
    taken = np.asarray([other if row is None else row for row, other in zip(rows, like, strict=True)])
    for tensor in changed.graph.initializer:
        if tensor.name in (product, bias):
            values = numpy_helper.to_array(tensor)[..., taken]
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))
    shape = changed.graph.output[0].type.tensor_type.shape
    shape.dim[LOGITS_AXIS].dim_value = len(taken)
    return changed


def head_names(model: onnx.ModelProto) -> tuple[str, str]:
    """Return the names of the head's weights [features, classes] and bias [classes]."""
    product = next(node for node in reversed(model.graph.node) if node.op_type == "MatMul")
    added = next(node for node in model.graph.node if product.output[0] in node.input)
    return product.input[1], next(name for name in added.input if name != product.output[0])


def _key(name: str) -> str:
    return name.replace(".", "/")


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}


def _simplified(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return ``nodes`` with the five operations of each exact GELU as one: it is what training spends memory on."""
    by_input: dict[str, list[onnx.NodeProto]] = {}
    by_output = {node.output[0]: node for node in nodes}
    for node in nodes:
        for name in node.input:
            by_input.setdefault(name, []).append(node)
    dropped: set[str] = set()
    gelus: dict[str, onnx.NodeProto] = {}
    for erf in (node for node in nodes if node.op_type == "Erf"):
        divided = by_output[erf.input[0]]
        added = by_input[erf.output[0]][0]
        multiplied = by_input[added.output[0]][0]
        halved = by_input[multiplied.output[0]][0]
        gelus[halved.output[0]] = onnx.helper.make_node("Gelu", [divided.input[0]], [halved.output[0]])
        dropped.update(node.output[0] for node in (divided, erf, added, multiplied))
    return [gelus.get(node.output[0], node) for node in nodes if node.output[0] not in dropped]


def _conv(inputs: Inputs, attributes: Attributes) -> torch.Tensor:
    images, weight = inputs[0], inputs[1]
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    if attributes.get("auto_pad") == b"SAME_UPPER":
        images = _same_upper(images, attributes, 0.0)
    elif (top, left) != (bottom, right):
        images, top, left = F.pad(images, (left, right, top, bottom)), 0, 0
    stride, dilation = tuple(attributes["strides"]), tuple(attributes["dilations"])
    return F.conv2d(images, weight, None, stride, (top, left), dilation, attributes["group"])


def _max_pool(inputs: Inputs, attributes: Attributes) -> torch.Tensor:
    images = inputs[0]
    if attributes.get("auto_pad") == b"SAME_UPPER":
        images = _same_upper(images, attributes, -math.inf)
    return F.max_pool2d(images, tuple(attributes["kernel_shape"]), tuple(attributes["strides"]))


def _same_upper(images: torch.Tensor, attributes: Attributes, value: float) -> torch.Tensor:
    """Pad so that the output is as large as the input by its strides; the odd pixel goes below and right."""
    padding: list[int] = []
    for size, kernel, stride in zip(
        reversed(images.shape[2:]), reversed(attributes["kernel_shape"]), reversed(attributes["strides"]), strict=True
    ):
        missing = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        padding += [missing // 2, missing - missing // 2]
    return F.pad(images, padding, value=value)


def _concat(inputs: Inputs, attributes: Attributes) -> torch.Tensor:
    return torch.cat([entry.reshape(1) if entry.ndim == 0 else entry for entry in inputs], attributes["axis"])


def _slice(inputs: Inputs, attributes: Attributes) -> Any:
    values, starts, ends, axes = (inputs[0], *(entry.tolist() for entry in inputs[1:4]))
    for start, end, axis in zip(starts, ends, axes, strict=True):
        at = [slice(None)] * values.ndim
        at[axis] = slice(start, end)
        values = values[tuple(at)]
    return values


def _reshape(inputs: Inputs, attributes: Attributes) -> Any:
    values, shape = inputs[0], [int(size) for size in inputs[1]]
    return values.reshape([values.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])


def _squeeze(inputs: Inputs, attributes: Attributes) -> Any:
    return inputs[0].squeeze(tuple(attributes["axes"]))


def _unsqueeze(inputs: Inputs, attributes: Attributes) -> Any:
    values = inputs[0]
    for axis in sorted(attributes["axes"]):
        values = values.unsqueeze(axis)
    return values


def _batch_norm(inputs: Inputs, attributes: Attributes) -> torch.Tensor:
    values, scale, bias, mean, variance = inputs
    return F.batch_norm(values, mean, variance, scale, bias, training=False, eps=attributes["epsilon"])


OPERATIONS: dict[str, Callable[[Inputs, Attributes], Any]] = {
    "Add": lambda inputs, _: inputs[0] + inputs[1],
    "AveragePool": lambda inputs, given: F.avg_pool2d(inputs[0], given["kernel_shape"], given["strides"]),
    "BatchNormalization": _batch_norm,
    "Concat": _concat,
    "Conv": _conv,
    "Div": lambda inputs, _: inputs[0] / inputs[1],
    "Gelu": lambda inputs, _: F.gelu(inputs[0]),
    "HardSigmoid": lambda inputs, given: (inputs[0] * given["alpha"] + given["beta"]).clamp(0, 1),
    "Identity": lambda inputs, _: inputs[0],
    "MatMul": lambda inputs, _: inputs[0] @ inputs[1],
    "MaxPool": _max_pool,
    "Mul": lambda inputs, _: inputs[0] * inputs[1],
    "Pow": lambda inputs, _: inputs[0] ** inputs[1],
    "ReduceMean": lambda inputs, given: inputs[0].mean(tuple(given["axes"]), keepdim=bool(given.get("keepdims", 1))),
    "Relu": lambda inputs, _: F.relu(inputs[0]),
    "Reshape": _reshape,
    "Shape": lambda inputs, _: torch.tensor(inputs[0].shape),
    "Sigmoid": lambda inputs, _: torch.sigmoid(inputs[0]),
    "Slice": _slice,
    "Softmax": lambda inputs, given: inputs[0].softmax(given["axis"]),
    "Sqrt": lambda inputs, _: inputs[0].sqrt(),
    "Squeeze": _squeeze,
    "Sub": lambda inputs, _: inputs[0] - inputs[1],
    "Transpose": lambda inputs, given: inputs[0].permute(tuple(given["perm"])),
    "Unsqueeze": _unsqueeze,
}
