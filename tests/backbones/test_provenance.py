"""Digests of networks: equal for equal networks in any process, other for anything else."""

import copy
import functools
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch
from torch import nn

from sktransfer.backbones._provenance import architecture_digest, versions, weights_hash


class Small(nn.Module):
    """Attributes of every kind that can decide what forward does."""

    scale = 2.0

    def __init__(self, activation=torch.relu, power=1, tags=("a", "b")):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))
        self.register_buffer("table", torch.arange(5), persistent=False)
        self.head = nn.Linear(4, 2, dtype=torch.bfloat16)
        self.activation = activation
        self.power = power
        self.tags = set(tags)
        self.options = {"eps": 1e-3, "sizes": [1, 2, (3, None)], torch.float32: slice(2)}
        self.offset = np.arange(3.0)

    def forward(self, x):
        return self.activation(self.body(x)) ** self.power * self.scale + halved(x)


def halved(x):
    return x * FACTOR


FACTOR = 0.5


def small(**parameters):
    torch.manual_seed(0)
    return Small(**parameters)


# -- weights ---------------------------------------------------------------------------------------


def test_equal_networks_have_equal_digests_wherever_and_however_they_are():
    network = small()
    assert len(weights_hash(network)) == 64
    assert weights_hash(network) == weights_hash(small()) == weights_hash(copy.deepcopy(network))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    assert weights_hash(network.eval()) == weights_hash(network.train())
    other_layout = copy.deepcopy(network)
    weight = other_layout.body[0].weight
    weight.data = weight.data.to(memory_format=torch.channels_last)
    assert weights_hash(other_layout) == weights_hash(network)
    assert all(torch.equal(before[name], v) for name, v in network.state_dict().items())


@pytest.mark.parametrize("name", ["body.0.weight", "body.1.running_var", "table", "head.bias"])
def test_one_bit_of_any_tensor_makes_another_digest(name):
    network = small()
    expected = weights_hash(network)
    tensor = dict(network.named_parameters()) | dict(network.named_buffers())
    bits = tensor[name].detach().view(-1).view(torch.uint8)
    bits[-1] ^= 1
    assert weights_hash(network) != expected
    bits[-1] ^= 1
    assert weights_hash(network) == expected


def test_names_types_and_shapes_count():
    def holder(**tensors):
        module = nn.Module()
        for name, tensor in tensors.items():
            module.register_buffer(name, tensor)
        return weights_hash(module)

    zeros = torch.zeros(4)
    digests = [
        holder(),
        holder(a=torch.zeros(0)),
        holder(a=zeros),
        holder(b=zeros),
        holder(a=zeros.reshape(2, 2)),
        holder(a=zeros.to(torch.int32)),
        holder(a=zeros, b=zeros),
        holder(a=torch.zeros(2), b=torch.zeros(6)),
        holder(a=torch.tensor(0.0)),
    ]
    assert len(set(digests)) == len(digests)
    # The order in which they were registered does not.
    assert holder(a=zeros, b=zeros + 1) == holder(b=zeros + 1, a=zeros)
    assert holder(a=zeros, b=zeros + 1) != holder(a=zeros + 1, b=zeros)


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_tensors_without_plain_bytes_are_seen_too():
    """Sparse and quantised tensors, and what layers keep as extra state."""

    def sparse(value):
        module = nn.Module()
        module.register_buffer("graph", torch.tensor([[0.0, value]]).to_sparse())
        return weights_hash(module)

    def quantised(value):
        module = nn.Module()
        tensor = torch.quantize_per_tensor(torch.tensor([1.0, value]), 0.5, 0, torch.quint8)
        module.register_buffer("table", tensor)
        return weights_hash(module)

    class Extra(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def get_extra_state(self):
            return {"value": self.value}

    for make in (sparse, quantised, lambda value: weights_hash(Extra(value))):
        assert make(2.0) == make(2.0)
        assert make(2.0) != make(3.0)


def test_large_networks_are_hashed_by_threads_with_the_same_result(monkeypatch):
    network = nn.Sequential(nn.Linear(3000, 3000), nn.Linear(3000, 10))
    expected = weights_hash(network)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert weights_hash(network) == expected
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert weights_hash(network) == expected
    with torch.no_grad():
        network[0].weight[-1, -1] += 1  # in the last piece of a tensor of several
    assert weights_hash(network) != expected


def test_hashing_costs_far_less_than_a_forward_pass_of_a_batch():
    torch.manual_seed(0)
    network = nn.Sequential(*(nn.Conv2d(128, 128, 3, padding=1) for _ in range(8))).eval()
    X = torch.zeros(64, 128, 14, 14)
    with torch.inference_mode():
        forward = min(_timed(lambda: network(X)) for _ in range(2))
    digest = min(
        _timed(lambda: (weights_hash(network), architecture_digest(network))) for _ in "12"
    )
    assert digest < forward / 2, f"{digest:.4f} s of hashing, {forward:.4f} s forward"


def _timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# -- architecture ----------------------------------------------------------------------------------


def test_the_architecture_does_not_depend_on_weights_mode_or_hooks_of_this_package():
    from sktransfer.backbones._classifier_layer import watch

    network = small()
    expected = architecture_digest(network)
    assert expected == architecture_digest(small()) == architecture_digest(copy.deepcopy(network))
    with torch.no_grad():
        network.head.weight += 1
    watch(network.head)
    assert architecture_digest(network.eval()) == expected
    assert architecture_digest(network) == architecture_digest(network.requires_grad_(False))


def test_anything_that_forward_may_read_makes_another_digest(monkeypatch):
    digests = {"as is": architecture_digest(small())}
    digests["function"] = architecture_digest(small(activation=torch.tanh))
    digests["lambda"] = architecture_digest(small(activation=lambda x: x))
    digests["other lambda"] = architecture_digest(small(activation=lambda x: x + 1))
    digests["constant lambda"] = architecture_digest(small(activation=lambda x: "a"))
    digests["other constant"] = architecture_digest(small(activation=lambda x: "b"))
    digests["closure"] = architecture_digest(small(activation=_scaled_by(2)))
    digests["other closure"] = architecture_digest(small(activation=_scaled_by(3)))
    digests["partial"] = architecture_digest(
        small(activation=functools.partial(torch.clamp, min=0))
    )
    digests["other partial"] = architecture_digest(
        small(activation=functools.partial(torch.clamp, min=1))
    )
    digests["a layer in a list"] = architecture_digest(small(activation=[nn.Linear(2, 2)]))
    digests["other layer in a list"] = architecture_digest(small(activation=[nn.Linear(2, 3)]))
    digests["an object"] = architecture_digest(small(activation=Options(1)))
    digests["another object"] = architecture_digest(small(activation=Options(2)))
    digests["its method"] = architecture_digest(small(activation=Options(1).call))
    digests["its method, otherwise"] = architecture_digest(small(activation=Options(2).call))
    digests["number"] = architecture_digest(small(power=2))
    digests["number of another type"] = architecture_digest(small(power=1.0))
    digests["set"] = architecture_digest(small(tags=("a", "c")))
    for name, change in {
        "layer": lambda n: n.body.append(nn.Identity()),
        "layer's parameter": lambda n: setattr(n.body[0], "stride", (2, 2)),
        "epsilon": lambda n: setattr(n.body[1], "eps", 0.1),
        "array": lambda n: n.offset.__setitem__(0, 9.0),
        "tensor": lambda n: setattr(n, "extra", torch.ones(2)),
        "other tensor": lambda n: setattr(n, "extra", torch.zeros(2)),
        "no number": lambda n: setattr(n, "offset", np.array([None])),
        "hook": lambda n: n.head.register_forward_hook(lambda *args: None),
        "pre-hook": lambda n: n.head.register_forward_pre_hook(lambda *args: None),
        "dtype": lambda n: setattr(n, "dtype", torch.float16),
        "enum": lambda n: setattr(n, "dtype", pytest.ExitCode.OK),
        "forward of the object": lambda n: setattr(n, "forward", torch.abs),
    }.items():
        network = small()
        change(network)
        digests[name] = architecture_digest(network)
    monkeypatch.setattr(Small, "scale", 3.0)
    digests["class attribute"] = architecture_digest(small())
    monkeypatch.undo()
    monkeypatch.setattr(Small, "forward", lambda self, x: x)
    digests["forward"] = architecture_digest(small())
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "FACTOR", 0.25)
    digests["what a called function reads"] = architecture_digest(small())
    monkeypatch.undo()
    shared = {}
    for name, digest in digests.items():
        shared.setdefault(digest, []).append(name)
    assert len(shared) == len(digests), [names for names in shared.values() if len(names) > 1]
    assert architecture_digest(small()) == digests["as is"]


def _scaled_by(factor):
    return lambda x: x * factor


class Options:
    def __init__(self, level):
        self.level = level
        self.me = self

    def call(self, x):
        return x * self.level


def test_the_device_of_an_attribute_does_not_count_and_depth_is_bounded():
    network = small()
    network.place = torch.device("cpu")
    other = small()
    other.place = torch.device("meta")
    assert architecture_digest(network) == architecture_digest(other)
    network.nested = nested = []
    nested.append(nested)
    assert architecture_digest(network) != architecture_digest(other)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_scripted_networks_are_told_apart_by_their_code():
    class Plus(nn.Module):
        def forward(self, x):
            return x + 1

    class Minus(nn.Module):
        def forward(self, x):
            return x - 1

    plus, again, minus = (torch.jit.script(kind()) for kind in (Plus, Plus, Minus))
    assert architecture_digest(plus) == architecture_digest(again)
    assert architecture_digest(plus) != architecture_digest(minus)


def test_another_process_gets_the_same_digests():
    code = """
    import torch
    from torch import nn
    from sktransfer.backbones._provenance import architecture_digest, weights_hash

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)
            self.kinds = {"x", "y", "zebra"}
            self.function = lambda v: v in {"x", "y", "zebra"}

        def forward(self, x):
            return self.head(x)

    torch.manual_seed(0)
    network = Net()
    print(weights_hash(network), architecture_digest(network))
    """
    printed = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


# -- versions --------------------------------------------------------------------------------------


def test_versions_of_the_libraries_that_matter():
    import sktransfer

    found = versions("numpy", "no-such-package")
    assert list(found) == ["no-such-package", "numpy", "sktransfer", "torch"]
    assert found["numpy"] == np.__version__
    assert found["sktransfer"] == sktransfer.__version__
    assert found["torch"] == torch.__version__
    assert type(found["torch"]) is str
    assert found["no-such-package"] == "unknown"
