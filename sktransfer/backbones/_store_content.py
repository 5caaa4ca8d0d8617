"""Digests of Python objects by what they hold: equal in another process, never by address."""

import copyreg
import sys
import threading
import types
from functools import lru_cache

import numpy as np

from sktransfer.backbones._store_code import (
    code_facts,
    functions_of,
    installed_as,
    own_classes,
    package_of,
    source_of_import,
)
from sktransfer.backbones._store_hashing import array_digest, combine, file_digest

__all__ = ["Unnameable", "content_digest"]

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_CONTAINERS = (list, dict, set, bytearray)
#: Ways to wait; they hold no numbers.
_IDLE = (type(threading.Lock()), type(threading.RLock()))
_WRAPPERS = (staticmethod, classmethod)
_CACHED_FUNCTION = type(lru_cache(len))


class Unnameable(ValueError):
    """An object that nothing tells from another one of its kind, so it cannot be found again."""


def content_digest(obj):
    """Give the digest of an object, of all that it holds and of the code of the user's own in it.

    Parameters
    ----------
    obj : object
        Anything: numbers, arrays, tensors, estimators, functions.

    Returns
    -------
    digest : bytes
        32 bytes.

    Raises
    ------
    Unnameable
        If something in it cannot be read: a generator, a handle of another library.
    """
    try:
        return _Digester().digest(obj)
    except Unnameable:
        raise
    except RecursionError as error:
        raise Unnameable(f"a {type(obj).__name__} is nested too deeply") from error
    except Exception as error:  # whatever the object does when it is asked for its state
        raise Unnameable(f"a {type(obj).__name__} cannot be read: {error}") from error


class _Digester:
    """Walks through an object. What was seen is kept, as digests and alive, so ids stay unique."""

    def __init__(self):
        self._seen = {}
        self._path = {}

    def digest(self, obj):
        if type(obj) in _ATOMS:
            return combine("atom", type(obj).__name__, _atom_bytes(obj))
        key = id(obj)
        if key in self._seen:
            return self._seen[key][0]
        if key in self._path:  # it holds itself
            return combine("again", str(len(self._path) - self._path[key]))
        self._path[key] = len(self._path)
        try:
            found = self._by_kind(obj)
        finally:
            del self._path[key]
        self._seen[key] = found, obj
        return found

    def _all(self, tag, *objects):
        return combine(tag, *map(self.digest, objects))

    def _by_kind(self, obj):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.Tensor):
            return _tensor_digest(torch, obj)
        if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
            mask = np.ma.getmaskarray(obj) if isinstance(obj, np.ma.MaskedArray) else None
            plain = array_digest(np.asarray(obj))
            return plain if mask is None else combine("masked", plain, array_digest(mask))
        if isinstance(obj, np.ndarray):
            return combine("objects", str(obj.shape), *map(self.digest, obj.ravel().tolist()))
        if type(obj) in (tuple, list):
            return self._all(type(obj).__name__, *obj)
        if type(obj) in (set, frozenset):
            return combine(type(obj).__name__, *sorted(map(self.digest, obj)))
        if type(obj) is dict:
            return self._items(obj.items())
        # Where a process talks to says nothing of what it computes.
        if isinstance(obj, _IDLE) or any(obj is stream for stream in (sys.stdout, sys.stderr)):
            return combine("idle", type(obj).__qualname__)
        return self._code(obj) or self._reduced(obj)

    def _items(self, items):
        pairs = sorted(self._all("item", key, value) for key, value in items)
        return combine("dict", *pairs)

    # -- functions, classes, modules ------------------------------------------------------------

    def _code(self, obj):
        if isinstance(obj, types.FunctionType):
            return self._function(obj)
        if isinstance(obj, type):
            return self._class(obj)
        if isinstance(obj, types.MethodType):
            return self._all("method", obj.__func__, obj.__self__)
        if isinstance(obj, _CACHED_FUNCTION):
            return self._all("cached function", obj.__wrapped__)
        if isinstance(obj, types.BuiltinFunctionType) and isinstance(
            obj.__self__, types.ModuleType | None
        ):
            return self._installed("builtin", obj.__module__, obj.__qualname__)
        if isinstance(obj, np.ufunc):
            return combine("ufunc", np.__version__, obj.__name__)
        if isinstance(obj, types.ModuleType):
            return self._installed("module", obj.__name__, obj.__name__)
        if isinstance(obj, property):
            return self._all("property", obj.fget, obj.fset, obj.fdel)
        if isinstance(obj, _WRAPPERS):
            return self._all(type(obj).__name__, obj.__func__)
        return None

    def _installed(self, tag, module_name, name):
        package = installed_as(module_name)
        return combine(tag, package or "own", module_name or "", name)

    def _function(self, function):
        if package_of(function) is not None:
            return self._installed("function", function.__module__, function.__qualname__)
        facts = code_facts(function.__code__)
        parts = [
            self._code_object(function.__code__),
            self._all("defaults", function.__defaults__, function.__kwdefaults__),
        ]
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            parts.append(self._value(name, value, facts))
        if installed_as(function.__module__) is None:
            parts.extend(self._used(function, facts))
        return combine("own function", *parts)

    def _used(self, function, facts):
        """Digests of what a function of the user's own finds in its module, in a fixed order."""
        known = function.__globals__
        for name in sorted(facts.globals & known.keys()):
            value = known[name]
            if isinstance(value, types.ModuleType) and installed_as(value.__name__) is None:
                for attribute in sorted(facts.names & vars(value).keys()):
                    yield self._value(attribute, vars(value)[attribute], facts)
            else:
                yield self._value(name, value, facts)
        for module, level in sorted(facts.imports):
            path = source_of_import(module, level, known.get("__package__"))
            if path is not None:
                yield combine("import", module, file_digest(path))

    def _value(self, name, value, facts):
        """Digest of a value that code uses, unless the code itself changes it."""
        if _is_changed(value, name in facts.assigned, name in facts.mutated):
            return combine("changed by the code", name)
        return combine("value", name, self.digest(value))

    def _code_object(self, code):
        constants = [
            self._code_object(constant)
            if isinstance(constant, types.CodeType)
            else self.digest(constant)
            for constant in code.co_consts
        ]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags,
        )
        version = f"{sys.version_info[:2]} {names} {counts}"
        return combine("code", version, code.co_code, code.co_exceptiontable, *constants)

    def _class(self, cls):
        own = own_classes(cls)
        if cls not in own:
            return self._installed("class", cls.__module__, cls.__qualname__)
        # A base class may hold what a method of another one changes.
        assigned, mutated = set(), set()
        for base in own:
            for function in functions_of(base):
                facts = code_facts(function.__code__)
                assigned |= facts.attributes
                mutated |= facts.mutated
        parts = []
        for base in cls.__mro__:
            if base not in own:
                parts.append(self._installed("class", base.__module__, base.__qualname__))
                continue
            for name, value in sorted(vars(base).items()):
                is_special = name.startswith("__") and name.endswith("__")
                if name == "_abc_impl" or is_special and not callable(value):
                    continue
                if _is_changed(value, name in assigned, name in mutated):
                    continue
                parts.append(combine("attribute", name, self.digest(value)))
        return combine("own class", cls.__qualname__, *parts)

    # -- everything else, as pickle would take it apart -----------------------------------------

    def _reduced(self, obj):
        reduce = copyreg.dispatch_table.get(type(obj))
        try:
            reduced = reduce(obj) if reduce is not None else obj.__reduce_ex__(4)
        except Exception as error:
            raise Unnameable(f"a {type(obj).__name__} has no state that can be read") from error
        if isinstance(reduced, str):
            return self._installed("global", getattr(obj, "__module__", None), reduced)
        function, arguments, *rest = reduced
        state, items, pairs = (*rest, None, None, None)[:3]
        parts = [self.digest(function), self.digest(arguments), self.digest(state)]
        if items is not None:
            parts.append(self._all("items", *items))
        if pairs is not None:
            parts.append(self._items(list(pairs)))
        return combine("object", *parts)


def _is_changed(value, assigned, mutated):
    """Tell whether a value is a counter, say: what runs changes it, and does not follow it."""
    if isinstance(value, _CONTAINERS):
        return assigned or mutated
    return assigned and type(value) is int


def _atom_bytes(obj):
    if isinstance(obj, bytes):
        return obj
    return obj if isinstance(obj, str) else repr(obj)


def _tensor_digest(torch, tensor):
    values = tensor.detach().cpu().contiguous().reshape(-1)
    numbers = values.view(torch.uint8).numpy() if values.numel() else np.empty(0, np.uint8)
    return combine("tensor", str(tensor.dtype), str(tuple(tensor.shape)), array_digest(numbers))
