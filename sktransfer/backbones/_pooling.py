"""Turn the output of any layer into one vector per row."""

from dataclasses import dataclass

import torch

from sktransfer.backbones._layout import Prefix

__all__ = ["POOLINGS", "Pooling", "choose_pooling", "has_class_token"]

#: Values of the parameter ``pooling``.
POOLINGS = frozenset({"auto", "cls", "mean", "flatten"})

_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Pooling:
    """How the output of one layer becomes a vector per row.

    Parameters
    ----------
    n_axes : int
        Axes that the output has, the one of the rows included.
    kind : {"vector", "mean", "cls", "flatten"}
        What is done. "vector" is for outputs of shape (n,) or (n, D), which have no positions.
    channel_axis : int or None, default=None
        Which axis holds the features of a position, for "mean" and "cls".
    first, last : int, default=0
        Tokens at the start and at the end of a sequence that are no patches: "mean" leaves them
        out.
    class_token : int or None, default=None
        Which token "cls" takes.
    """

    n_axes: int
    kind: str
    channel_axis: int | None = None
    first: int = 0
    last: int = 0
    class_token: int | None = None

    def __call__(self, output, n, name):
        """Pool a layer's output.

        Parameters
        ----------
        output : tensor of shape (n, ...)
            What the layer gave for a batch.
        n : int
            Rows of the batch.
        name : str
            Name of the layer, for errors.

        Returns
        -------
        features : tensor of shape (n, D)
            May be a view of the output, which the network may change in place afterwards.

        Raises
        ------
        ValueError
            For an output that is no tensor of numbers, or has another number of rows or axes.
        """
        _check_output(output, n, name)
        if output.ndim != self.n_axes:
            raise ValueError(
                f"The output of the layer '{name}' has shape {tuple(output.shape)}, where "
                f"{self.n_axes} axes are expected from what it gave in fit."
            )
        if self.kind in ("vector", "flatten"):
            return output.reshape(n, -1)
        if self.kind == "cls":
            return output.select(3 - self.channel_axis, self.class_token)
        if self.first or self.last:
            axis = 3 - self.channel_axis
            length = output.shape[axis] - self.first - self.last
            output = output.narrow(axis, self.first, length)
        axes = [axis for axis in range(1, output.ndim) if axis != self.channel_axis]
        dtype = torch.float32 if output.dtype in _HALF else None
        return output.mean(dim=axes, dtype=dtype)


def _check_output(output, n, name):
    """Refuse what a layer gave if it is no tensor of numbers with one entry per row."""
    if not isinstance(output, torch.Tensor):
        _raise_for_no_tensor(name, type(output).__name__)
    if output.is_complex():
        raise ValueError(f"The layer '{name}' returns complex numbers ({output.dtype}).")
    _check_rows(tuple(output.shape), n, name)


def _raise_for_no_tensor(name, found):
    raise ValueError(
        f"The layer '{name}' returns a {found} where a tensor is expected; name a layer inside or "
        "around it that returns one tensor."
    )


def _check_rows(shape, n, name, is_first=True):
    if not shape or shape[0] != n or not is_first:
        raise ValueError(
            f"The output of the layer '{name}' has shape {shape} for {n} rows: its first axis must "
            "be the rows."
        )


def choose_pooling(structure, call, pooling, name):
    """Find out how the output of a layer becomes a vector.

    Parameters
    ----------
    structure : Structure
        What passes through the network have told.
    call : Call
        A call of the layer.
    pooling : {"auto", "cls", "mean", "flatten"}
        The parameter. "auto" takes the class token of sequences that have one, unless the network
        says that it averages, and averages over positions otherwise.
    name : str
        What the user calls the layer, for errors.

    Returns
    -------
    pooling : Pooling
        What to do.

    Raises
    ------
    ValueError
        If the output is no tensor, the axis of its features cannot be told, or there is no class
        token where one is asked for.
    """
    shape = call.output
    if shape is None:
        _raise_for_no_tensor(name, call.returned)
    _check_rows(shape, structure.n_rows, name, structure.has_rows_first(call))
    n_axes = len(shape)
    if n_axes <= 2:
        return Pooling(n_axes, "vector")
    if pooling == "flatten":
        return Pooling(n_axes, "flatten")
    axis = structure.channel_axis(call)
    if axis is None:
        raise ValueError(
            f"The output of the layer '{name}' has shape {shape}, and nothing tells which axis "
            "holds its features and which its positions: name another layer, or pass "
            "pooling='flatten', which keeps all numbers."
        )
    is_sequence = n_axes == 3 and axis == 2
    prefix = structure.prefix(shape[1]) if is_sequence else Prefix()
    class_token = None if _has_no_class_token(structure.module) else prefix.class_token
    if pooling == "cls" and class_token is None:
        raise ValueError(
            f"pooling='cls' needs a class token, and the output of the layer '{name}', of shape "
            f"{shape}, has none" + ("." if is_sequence else ": it is no sequence of tokens.")
        )
    if pooling == "cls" or (
        pooling == "auto" and class_token is not None and not _averages(structure.module)
    ):
        return Pooling(n_axes, "cls", axis, class_token=class_token)
    return Pooling(n_axes, "mean", axis, prefix.first, prefix.last)


def has_class_token(structure, used=False):
    """Tell whether a network's sequences have a class token, that its classifier is given if used.

    Parameters
    ----------
    structure : Structure
        What passes through the network have told.
    used : bool, default=False
        Whether networks do not count that say that they average tokens.

    Returns
    -------
    found : bool
        Whether there is one.
    """
    if _has_no_class_token(structure.module) or (used and _averages(structure.module)):
        return False
    return structure.has_prefix()


# What cannot be seen in a pass, some networks say themselves (timm's do).
def _has_no_class_token(module):
    """Whether a network says that its prefix tokens are registers only."""
    return any(
        hasattr(layer, "num_prefix_tokens") and getattr(layer, "cls_token", 0) is None
        for layer in module.modules()
    )


def _averages(module):
    """Whether a network says that it averages over its tokens."""
    return any(
        getattr(layer, "global_pool", None) in ("avg", "avgmax", "max")
        and hasattr(layer, "num_prefix_tokens")
        for layer in module.modules()
    )
