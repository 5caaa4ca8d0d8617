"""Turn the output of any layer into one vector per row."""

from dataclasses import dataclass

import torch

__all__ = ["POOLINGS", "Pooling"]

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
            Never a view of the output, which the network may change in place afterwards.

        Raises
        ------
        ValueError
            For an output that is no tensor of numbers, or has another number of rows or axes.
        """
        check_output(output, n, name)
        if output.ndim != self.n_axes:
            raise ValueError(
                f"The output of the layer '{name}' has shape {tuple(output.shape)}, where "
                f"{self.n_axes} axes are expected from what it gave in fit."
            )
        if self.kind in ("vector", "flatten"):
            return output.reshape(n, -1).clone()
        if self.kind == "cls":
            return output.select(3 - self.channel_axis, self.class_token).clone()
        if self.first or self.last:
            axis = 3 - self.channel_axis
            length = output.shape[axis] - self.first - self.last
            output = output.narrow(axis, self.first, length)
        axes = [axis for axis in range(1, output.ndim) if axis != self.channel_axis]
        dtype = torch.float32 if output.dtype in _HALF else None
        return output.mean(dim=axes, dtype=dtype)


def check_output(output, n, name):
    """Refuse what a layer gave if it is no tensor of numbers with one entry per row."""
    if not isinstance(output, torch.Tensor):
        raise ValueError(
            f"The layer '{name}' returns a {type(output).__name__} where a tensor is expected; "
            "name a layer inside or around it that returns one tensor."
        )
    if output.is_complex():
        raise ValueError(f"The layer '{name}' returns complex numbers ({output.dtype}).")
    if output.ndim == 0 or len(output) != n:
        raise ValueError(
            f"The output of the layer '{name}' has shape {tuple(output.shape)} for {n} rows: its "
            "first axis must be the rows."
        )
