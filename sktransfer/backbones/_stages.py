"""The layers at the ends of a network's stages, found by what a forward pass does."""

from collections import Counter
from math import prod

from torch import nn

__all__ = ["find_stages"]

# A stage ends where less than this part of the positions is left. Stride 2 leaves a quarter;
# convolutions without padding leave somewhat less than all.
_REDUCTION = 0.5
# How many blocks of a row of equal ones are taken.
_N_BLOCKS = 4
# With so many stages there is no need to look for blocks.
_ENOUGH = 3
# So many blocks in the last stage are a transformer behind a stem of convolutions.
_LONG_ROW = 6
# Layers that give what they are given.
_PASSING = (nn.Identity, nn.Dropout, nn.Dropout2d, nn.AlphaDropout)


def find_stages(structure, head):
    """Find the layers after which a network has finished with a resolution.

    They are the last ones before the number of positions drops, on the way from the input to the
    classifier; blocks are not cut open, and a stage has a learned layer. A network that keeps its
    resolution, as transformers do, is cut between its equal blocks, four of which are taken at
    equal distances; one without positions, before each of its learned layers.

    Parameters
    ----------
    structure : Structure
        The calls of the network's layers.
    head : ClassifierLayer or None
        Its classifier layer, which is where the way ends.

    Returns
    -------
    calls : list of Call
        In order of execution, at most a dozen or so; may be empty.
    """
    root = structure.calls[-1]
    head_layer = None if head is None else structure.module.get_submodule(head.name)
    way = _Way(structure, head_layer)
    way.follow(root)
    stages = _clusters(way.steps)
    stages = _cut_between_blocks(stages, root, structure)
    ends = [call for stage in stages for call in stage]
    return ends or _thinned(_before_learned_layers(way))


class _Way:
    """The calls that a batch goes through one after the other, with the positions after each."""

    def __init__(self, structure, head_layer):
        self.structure = structure
        self.head_layer = head_layer
        self.n_positions = _positions(structure, structure.calls[-1], structure.calls[-1].given)
        self.steps = []
        self.arrived = False

    def follow(self, call):
        """Append the calls inside a call."""
        classes = Counter(type(child.layer) for child in call.children)
        for child in call.children:
            if self.arrived:
                return
            has_head = any(self.head_layer is c.layer for c in _all_inside(child))
            n_after = _positions(self.structure, child, child.output)
            is_open = self._is_open(child, n_after, has_head, classes[type(child.layer)] > 1)
            if is_open and child.layer is not self.head_layer:
                self.follow(child)
            elif has_head:
                self.arrived = True
            elif n_after is not None and not isinstance(child.layer, _PASSING):
                self.steps.append((child, n_after))
                self.n_positions = n_after

    def _is_open(self, call, n_after, has_head, is_block):
        """Whether stages would be missed if a call was one step."""
        if not call.children:
            return False
        if has_head and len(call.children) > 1:
            return True
        if n_after is None:  # a list of maps, or a block that passes more on than a tensor
            return not is_block
        low, high = n_after / _REDUCTION, (self.n_positions or 0) * _REDUCTION
        inside = {c: _positions(self.structure, c, c.output) for c in _all_inside(call)[1:]}
        if any(n is not None and low < n < high for n in inside.values()):
            return True
        # A row of blocks of which some come before the reduction; a block may begin so, too.
        return not is_block and any(
            child.children and _has_weights(child) and (inside[child] or 0) > low
            for child in call.children
        )


def _all_inside(call):
    found = [call]
    for child in call.children:
        found += _all_inside(child)
    return found


def _positions(structure, call, shape):
    """Count the positions in a tensor of some shape; None for what has no row per image."""
    if shape is None or not shape or shape[0] != structure.n_rows:
        return None
    if len(shape) <= 2:
        return 1
    if shape == call.output:
        if not structure.has_rows_first(call):
            return None
        axis = structure.channel_axis(call)
    else:  # the input of the network
        axis = 1
    return None if axis is None else prod(shape[1:]) // max(1, shape[axis])


def _has_weights(call):
    return any(True for _ in call.layer.parameters())


def _clusters(steps):
    """Give the last step before each reduction, as lists of one."""
    stages, learned, smallest = [], False, None
    for call, n in steps:
        if n <= 1:
            continue
        if smallest is not None and n > smallest / _REDUCTION:
            continue  # a way back up, as in a decoder
        if smallest is None or n < smallest * _REDUCTION:
            if stages and not learned:
                stages.pop()
            stages.append(None)
            learned = False
        smallest = n
        learned = learned or _has_weights(call)
        stages[-1] = [call]
    if stages and not learned:
        stages.pop()
    return stages


def _cut_between_blocks(stages, root, structure):
    """Take several blocks of a long row of equal ones instead of the end of its stage.

    That is the one of a network of few stages, or one that makes up the last stage.
    """
    blocks = _row_of_blocks(root)
    if not blocks or _positions(structure, blocks[-1], blocks[-1].output) in (None, 1):
        return stages
    order = {call: i for i, call in enumerate(structure.calls)}
    place = next(
        (i for i, (end,) in enumerate(stages) if order[end] >= order[blocks[-1]]), len(stages)
    )
    is_last = place >= len(stages) - 1 and len(blocks) >= _LONG_ROW
    if len(stages) >= _ENOUGH and not is_last:
        return stages
    return [*stages[:place], _thinned(blocks), *stages[place + 1 :]]


def _row_of_blocks(root):
    """Find the longest row of calls of layers of one class with outputs of one shape."""
    level = [root]
    while level:
        rows = {}
        for call in level:
            for child in call.children:
                if child.children and _has_weights(child):
                    key = (call, type(child.layer), child.given, child.output)
                    rows.setdefault(key, []).append(child)
        longest = max(rows.values(), key=len, default=[])
        if len(longest) >= _ENOUGH:
            return longest
        level = [child for call in level for child in call.children]
    return []


def _before_learned_layers(way):
    """Give the steps of a network without positions after which a learned layer follows."""
    ends, before, learned = [], None, False
    for call, _ in way.steps:
        if _has_weights(call):
            if learned:
                ends.append(before)
            learned = True
        before = call
    return ends + [before] if learned else ends


def _thinned(calls):
    n = min(_N_BLOCKS, len(calls))
    return [calls[(i + 1) * len(calls) // n - 1] for i in range(n)]
