"""Which axis of a layer's output holds the features, and which tokens of a sequence are patches.

Both are read off what happens in forward passes, never off the names of classes.
"""

from dataclasses import dataclass, field

import torch
from torch import nn

from sktransfer.backbones._trace import enlarged, noise_like, trace

__all__ = ["Prefix", "Structure"]

# Layers that act on the second axis, and those that act on the last.
_FIRST = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.LPPool2d, nn.Upsample),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.ZeroPad2d),
)
_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding)


@dataclass(frozen=True)
class Prefix:
    """Tokens of a sequence that are no patches: class tokens, registers and the like.

    Parameters
    ----------
    first, last : int
        How many there are at the start and at the end.
    """

    first: int = 0
    last: int = 0

    @property
    def class_token(self):
        """Place of the class token, the first of them; None if there are none."""
        if self.first:
            return 0
        return -self.last if self.last else None


@dataclass
class Structure:
    """What forward passes tell about the outputs of the layers of one network.

    Parameters
    ----------
    module : nn.Module
        Network in evaluation mode that belongs to the caller.
    x : tensor
        A small batch.

    Attributes
    ----------
    calls : list of Call
        The calls of all layers, on noise of the shape of the batch or, if the network refuses
        that, on the batch itself.
    """

    module: nn.Module
    x: torch.Tensor
    calls: list = field(init=False)

    def __post_init__(self):
        self._sequences, self._prefixes = [], None
        self.calls, failure = trace(self.module, noise_like(self.x), self._sequences)
        self.n_rows = 2
        if failure is not None:
            self.use_batch()
        self._larger, self._axes = None, {}

    def use_batch(self):
        """Look at the calls on the batch itself."""
        self._sequences = []
        self._prefixes = None
        self.calls, failure = trace(self.module, self.x, self._sequences)
        self.n_rows = len(self.x)
        if failure is not None:
            raise failure

    def n_calls(self, name):
        """Count the calls of a layer in one pass."""
        layer = self.module.get_submodule(name)
        return sum(call.layer is layer for call in self.calls)

    def call(self, name, number=None):
        """Give the call of a layer, its last one unless a number is given; None without one."""
        layer = self.module.get_submodule(name)
        found = [call for call in self.calls if call.layer is layer]
        if number is not None:
            found = [call for call in found if call.number == number]
        return found[-1] if found else None

    # -- axes ------------------------------------------------------------------------------------

    def channel_axis(self, call):
        """Tell which axis of a layer's output holds the features.

        Parameters
        ----------
        call : Call
            A call whose output has three or more axes.

        Returns
        -------
        axis : int or None
            1 or the last; None if that cannot be told.
        """
        if call not in self._axes:
            self._axes[call] = self._find_channel_axis(call)
        return self._axes[call]

    def _find_channel_axis(self, call):
        shape = call.output
        last = len(shape) - 1
        changed = self._changed_axes(call)
        if changed:
            if 1 not in changed:
                return 1
            return None if last in changed else last
        axis = self._axis_by_layers(call)
        if axis is None and sum(length > 1 for length in shape[1:]) == 1 and len(shape) > 3:
            axis = 1 if shape[1] > 1 else last if shape[last] > 1 else None  # one position
        return axis

    def has_rows_first(self, call):
        """Tell whether the first axis of a layer's output is that of the rows."""
        shape = call.output
        if not shape or shape[0] != self.n_rows:
            return False
        larger = self._output_for_larger(call)
        return larger is None or larger[0] == 1

    def _changed_axes(self, call):
        """Give the axes that get longer with a larger image; empty if that cannot be seen."""
        larger = self._output_for_larger(call)
        if larger is None:
            return set()
        return {axis for axis, n in enumerate(call.output) if axis and n != larger[axis]}

    def _output_for_larger(self, call):
        """Give the shape of what a layer gives for one larger image; None if that is not known."""
        if self._larger is None:
            self._larger = []
            for x in enlarged(self.x):
                calls, failure = trace(self.module, x)
                self._larger.append({(c.name, c.number): c.output for c in calls})
                if failure is None:
                    break
        for outputs in self._larger:
            output = outputs.get((call.name, call.number))
            if output is not None and len(output) == len(call.output):
                return output
        return None

    def _axis_by_layers(self, call):
        """Ask the layers inside, then those that come after and before, what they act on."""
        shape = call.output
        own = _vote(call, shape)
        if own is not None:
            return own
        index = self.calls.index(call)
        inside = [c for c in self.calls[index::-1] if _is_inside(c, call)]
        after = [c for c in self.calls[index + 1 :] if not _is_inside(call, c)]
        before = [c for c in self.calls[index::-1] if not _is_inside(c, call)]
        votes = [
            vote for part in (inside, after) for c in part if (vote := _vote(c, shape)) is not None
        ]
        if len(set(shape[1:])) == 1:  # the same shape with axes in another order
            return votes[0] if len(set(votes)) == 1 else None
        votes += [vote for c in before if (vote := _vote(c, shape)) is not None]
        return votes[0] if votes else None

    # -- tokens ----------------------------------------------------------------------------------

    def prefix(self, n_tokens):
        """Tell which tokens of the sequences of some length are no patches.

        Class tokens and registers are weights, so in the first sequence of this length that is
        seen they are the same for all images. Tokens that are computed from the image are told by
        their number: those that a sequence has more than there were patches before.

        Parameters
        ----------
        n_tokens : int
            Length of the sequences.

        Returns
        -------
        prefix : Prefix
            Nothing, if all tokens are patches.
        """
        return self._all_prefixes().get(n_tokens, Prefix())

    def _all_prefixes(self):
        if self._prefixes is None:
            self._prefixes = _find_prefixes(self._sequences)
        return self._prefixes

    def has_prefix(self):
        """Whether any sequence has tokens that are no patches."""
        return any(p.first + p.last for p in self._all_prefixes().values())


def _is_inside(call, other):
    while call is not None:
        if call is other:
            return True
        call = call.parent
    return False


def _vote(call, shape):
    """Give the axis that a layer acts on, if its input or output is of this shape."""
    layer = call.layer
    if shape not in (call.given, call.output):
        return None
    if isinstance(layer, _FIRST):
        return 1
    # Layers for maps are derived from some of these, and turn the axes before and after.
    for kind in _LAST:
        if isinstance(layer, kind) and type(layer).forward is kind.forward:
            is_one_axis = len(getattr(layer, "normalized_shape", (0,))) == 1
            return len(shape) - 1 if is_one_axis else None
    return None


def _find_prefixes(sequences):
    """Give the prefix by length of sequence, from the tensors seen in order of time."""
    prefixes, n_before, carried = {}, None, Prefix()
    for shape, constant in sequences:
        if constant is None:
            n_before = shape[2] * shape[3]
            continue
        n_tokens = shape[1]
        if n_tokens not in prefixes:
            found = _constant_ends(constant)
            if not found.first + found.last and n_before is not None:
                extra = n_tokens - n_before
                found = Prefix(extra) if 0 < extra < n_before else carried
            if found.first + found.last >= n_tokens:
                found = Prefix()
            prefixes[n_tokens] = found
            if found.first + found.last:
                carried = found
        n_before = n_tokens - prefixes[n_tokens].first - prefixes[n_tokens].last
    return prefixes


def _constant_ends(constant):
    """Count the tokens at both ends that no image changes; none if no image changes anything."""
    if all(constant):
        return Prefix()
    first = constant.index(False)
    last = constant[::-1].index(False)
    return Prefix(first, last)
