"""What a network is: digests of its weights and of its architecture, and library versions."""

import os
import re
import types
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO

import numpy as np
import torch
from torch import nn

__all__ = ["architecture_digest", "versions", "weights_hash"]

# Large tensors are cut, so that one huge embedding keeps all threads busy. The cut is part of the
# digest and must not depend on the machine.
_CHUNK_BYTES = 16 * 2**20
# SHA-256 runs at the speed of memory from about here on, and the machine may be shared.
_MAX_THREADS = 8

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MAX_DEPTH = 8


def weights_hash(module):
    """Give a digest of all weights of a network.

    Parameters
    ----------
    module : nn.Module
        The network. Neither its mode nor the device it is on matters.

    Returns
    -------
    digest : str
        SHA-256 in hex over names, dtypes, shapes and bytes of all parameters and buffers in the
        order of their names, so any bit of a weight changes it, and it is equal in all processes.

    Notes
    -----
    Tensors are hashed in pieces by several threads (``hashlib`` releases the interpreter lock),
    which takes milliseconds for a usual network: far less than one forward pass.
    """
    named = sorted(_named_tensors(module).items())
    pieces = [
        (index, piece) for index, (_, tensor) in enumerate(named) for piece in _pieces(tensor)
    ]
    n_bytes = sum(len(piece) for _, piece in pieces)
    n_threads = min(_MAX_THREADS, os.cpu_count() or 1, 1 + n_bytes // _CHUNK_BYTES)
    if n_threads > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            digests = list(pool.map(lambda pair: sha256(pair[1]).digest(), pieces))
    else:
        digests = [sha256(piece).digest() for _, piece in pieces]
    total = sha256()
    for name, tensor in named:
        total.update(repr((name, _type_and_shape(tensor))).encode())
    for (index, _), digest in zip(pieces, digests, strict=True):
        total.update(index.to_bytes(8, "little") + digest)
    return total.hexdigest()


def _named_tensors(module):
    """Give all tensors by name: also buffers that are not stored, and names that share a tensor."""
    tensors = dict(module.named_parameters(remove_duplicate=False))
    tensors.update(module.named_buffers(remove_duplicate=False))
    # Quantised layers keep their weights packed: neither parameters nor buffers.
    for name, value in module.state_dict().items():
        tensors.setdefault(name, value)
    return tensors


def _type_and_shape(tensor):
    if not isinstance(tensor, torch.Tensor):
        return type(tensor).__qualname__
    if nn.parameter.is_lazy(tensor):
        return "uninitialized"
    return str(tensor.dtype), tuple(tensor.shape)


def _pieces(tensor):
    """Give the bytes of a tensor as a list of buffers that copy nothing where that can be."""
    content = _bytes_of(tensor)
    return [content[i : i + _CHUNK_BYTES] for i in range(0, len(content), _CHUNK_BYTES)]


def _bytes_of(tensor):
    if not isinstance(tensor, torch.Tensor):
        return _saved(tensor)
    if nn.parameter.is_lazy(tensor) or tensor.is_meta:
        return b""
    try:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return memoryview(plain.reshape(-1).view(torch.uint8).numpy())
    except (RuntimeError, TypeError, NotImplementedError):
        return _saved(tensor)  # sparse, quantised and other tensors that have no plain bytes


def _saved(value):
    buffer = BytesIO()
    torch.save(value, buffer)
    return buffer.getbuffer()


def architecture_digest(module):
    """Give a digest of everything but the weights that decides what a network computes.

    Parameters
    ----------
    module : nn.Module
        The network.

    Returns
    -------
    digest : str
        SHA-256 in hex over the tree of layers: their names and classes, the attributes that are
        numbers, strings, arrays, functions or containers of such, the hooks, and the byte code of
        the classes that do not come from a library (of those the version tells, see
        :func:`versions`) with the functions they call. Equal in all processes of one Python
        version.

    Notes
    -----
    It cannot see everything: code behind a C extension, say, or what is read from a file during
    the forward pass. It is meant to be used together with the output on a few rows.
    """
    writer = _Writer()
    for name, layer in module.named_modules(remove_duplicate=False):
        writer.put("layer", name)
        writer.put_layer(layer)
    return writer.digest()


def versions(*packages, module=None):
    """Give the versions of libraries that decide what a network computes.

    Parameters
    ----------
    *packages : str
        Names of distributions beside ``sktransfer`` and ``torch``.
    module : nn.Module, default=None
        A network, the libraries of whose layers count too.

    Returns
    -------
    versions : dict of str to str
        Version by name, sorted by name; "unknown" for a package that is not installed as one.
    """
    names = {"sktransfer", "torch", *packages}
    if module is not None:
        # Their code is not looked at, because the version tells.
        names |= {_top_level(type(layer)) for layer in module.modules()} & _LIBRARIES
    return {name: _version(name) for name in sorted(names - {"builtins"})}


def _version(name):
    if name == "torch":
        return str(torch.__version__)  # with the build, such as +cu126
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


# Attributes of nn.Module that are bookkeeping, or are walked by themselves.
_SKIPPED = frozenset(
    {"training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
    | {"_is_full_backward_hook"}
)
_FORWARD_HOOKS = ("_forward_pre_hooks", "_forward_hooks")


# Packages whose code is told by their versions.
_LIBRARIES = frozenset(("torch", "torchvision", "timm", "numpy", "scipy", "builtins", "sktransfer"))


def _top_level(thing):
    return (getattr(thing, "__module__", None) or "").partition(".")[0]


class _Writer:
    """Feeds a digest with values in a form that does not depend on addresses or hash seeds."""

    def __init__(self):
        self._hash = sha256()
        self._seen = {}

    def digest(self):
        return self._hash.hexdigest()

    def put(self, kind, text=""):
        content = f"{kind}:{text}".encode(errors="surrogatepass")
        self._hash.update(len(content).to_bytes(8, "little") + content)

    def _is_known(self, thing):
        """Write a number instead of a thing that was written before; recursion ends here."""
        known = self._seen.get(id(thing))
        if known is not None:
            self.put("again", known[0])
            return True
        # The thing itself is kept, so that no other gets its id.
        self._seen[id(thing)] = (len(self._seen), thing)
        return False

    def put_layer(self, layer):
        self.put_class(type(layer))
        self.put("repr", _ADDRESS.sub("", layer.extra_repr()))
        for name in _FORWARD_HOOKS:
            for hook in getattr(layer, name, {}).values():
                # The hooks by which this package looks at layers change nothing.
                if _top_level(getattr(hook, "func", hook)) != "sktransfer":
                    self.put(name)
                    self.put_value(hook)
        if isinstance(layer, torch.jit.ScriptModule):
            self.put("script", str(layer.code) if hasattr(layer, "forward") else "")
            return
        for name, value in sorted(vars(layer).items()):
            if name not in _SKIPPED and not name.endswith("_hooks") and "hooks_" not in name:
                self.put("attribute", name)
                self.put_value(value)

    def put_value(self, value, depth=0):
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.put(type(value).__name__, repr(value))
        elif isinstance(value, Enum):
            self.put("enum", f"{type(value).__qualname__}.{value.name}")
        elif isinstance(value, torch.device):
            self.put("device")  # where it runs is no part of what it is
        elif isinstance(value, (torch.dtype, torch.Size, np.dtype, range, slice)):
            self.put("plain", repr(value))
        elif depth > _MAX_DEPTH:
            self.put("deep", _qualified(type(value)))
        elif isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
            self.put_array(value)
        elif isinstance(value, type):
            self.put_class(value)
        elif isinstance(value, types.FunctionType):
            self.put_function(value, depth)
        elif isinstance(value, nn.Module):
            # Layers of the network are walked by name; one hidden in a list or closure is not.
            if not self._is_known(value):
                self.put("digest", architecture_digest(value) + weights_hash(value))
        else:
            self.put_object(value, depth)

    def put_array(self, value):
        if isinstance(value, torch.Tensor):
            self.put("tensor", repr(_type_and_shape(value)))
            self._hash.update(sha256(_bytes_of(value)).digest())
        elif value.dtype.hasobject:
            self.put("objects", repr(value.shape))
        else:
            self.put("array", repr((value.dtype, value.shape)))
            self._hash.update(sha256(np.ascontiguousarray(value).tobytes()).digest())

    def put_object(self, value, depth):
        if isinstance(value, dict):
            self.put("dict", len(value))
            for key, item in sorted(value.items(), key=lambda pair: _digest_of(pair[0], depth)):
                self.put_value(key, depth + 1)
                self.put_value(item, depth + 1)
        elif isinstance(value, (set, frozenset)):
            self.put("set", " ".join(sorted(_digest_of(item, depth) for item in value)))
        elif isinstance(value, (list, tuple)):
            self.put(type(value).__name__, len(value))
            for item in value:
                self.put_value(item, depth + 1)
        elif isinstance(value, partial):
            self.put("partial")
            for part in (value.func, value.args, value.keywords):
                self.put_value(part, depth + 1)
        elif self._is_known(value):
            return
        elif isinstance(value, types.MethodType):
            self.put("method", value.__name__)
            self.put_function(value.__func__, depth)
            if not isinstance(value.__self__, nn.Module):
                self.put_value(value.__self__, depth + 1)
        else:
            self.put("object", _qualified(type(value)) + getattr(value, "__qualname__", ""))
            self.put_class(type(value))
            if _top_level(type(value)) not in _LIBRARIES:
                for name, item in sorted(getattr(value, "__dict__", {}).items()):
                    self.put("attribute", name)
                    self.put_value(item, depth + 1)

    def put_class(self, cls):
        """Write a class with the code of its own and inherited methods, up to the libraries."""
        for base in cls.__mro__:
            self.put("class", _qualified(base))
            if _top_level(base) in _LIBRARIES or self._is_known(base):
                continue
            for name, value in sorted(vars(base).items()):
                value = getattr(value, "__func__", value)  # of a static or class method
                value = value.fget if isinstance(value, property) else value
                if isinstance(value, types.FunctionType):
                    self.put("def", name)
                    self.put_function(value, 0)
                elif not name.startswith("__") and _is_plain(value):
                    self.put("constant", name)
                    self.put_value(value)

    def put_function(self, function, depth):
        """Write what a function does: byte code, defaults, closure, and functions it calls."""
        self.put("function", _qualified(function))
        if _top_level(function) in _LIBRARIES and function.__closure__ is None:
            return
        if self._is_known(function):
            return
        self.put_code(function.__code__)
        for part in (function.__defaults__, function.__kwdefaults__):
            self.put_value(part, depth + 1)
        for cell in function.__closure__ or ():
            try:
                self.put_value(cell.cell_contents, depth + 1)
            except ValueError:
                self.put("empty cell")
        for name in sorted(set(_names(function.__code__))):
            value = function.__globals__.get(name)
            if isinstance(value, types.FunctionType) or _is_plain(value):
                self.put("global", name)
                self.put_value(value, depth + 1)

    def put_code(self, code):
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.put("code", repr((code.co_code, code.co_exceptiontable, names)))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.put_code(constant)
            else:
                self.put_value(constant)


def _digest_of(value, depth):
    writer = _Writer()
    writer.put_value(value, depth + 1)
    return writer.digest()


def _names(code):
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_plain(value):
    if isinstance(value, (tuple, list)):
        return all(_is_plain(item) for item in value)
    plain = (bool, int, float, complex, str, torch.Tensor, np.ndarray, torch.dtype)
    return isinstance(value, plain)


def _qualified(thing):
    module, name = (getattr(thing, key, "?") for key in ("__module__", "__qualname__"))
    return f"{module}.{name}"
