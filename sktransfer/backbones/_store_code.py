"""What Python code says: functions and classes of the user's own, by their instructions.

Installed packages are known by name and version. A function of the user's own has no version, so
what it does is read: its instructions and constants, the functions and values that it uses. What
code changes while it runs, a counter of calls for example, is no part of it.
"""

import dis
import importlib.util
import inspect
import os
import sys
import sysconfig
import types
from functools import lru_cache
from importlib import metadata

__all__ = [
    "CodeFacts",
    "code_facts",
    "functions_of",
    "installed_as",
    "own_classes",
    "package_of",
    "source_of_import",
]

_MUTATORS = frozenset(
    ("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem")
    + ("popleft", "remove", "setdefault", "subtract", "update", "__setitem__")
)
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD")
_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class CodeFacts:
    """What the instructions of a function, and of those inside it, tell.

    Parameters
    ----------
    code : code object
        The function's code.

    Attributes
    ----------
    globals : set of str
        Global names that are read.
    names : set of str
        All names, those of attributes too.
    assigned, attributes : set of str
        Names of globals (and of variables outside) that the code assigns, and of attributes.
    mutated : set of str
        Names of all these that it changes in place.
    imports : set of (str, int)
        Modules that are imported inside the function, with the level of a relative import.
    """

    def __init__(self, code):
        self.globals, self.names, self.imports = set(), set(), set()
        self.assigned, self.attributes, self.mutated = set(), set(), set()
        self._look_at(code)

    def _look_at(self, code):
        self.names.update(code.co_names)
        instructions = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
        for place, instruction in enumerate(instructions):
            name, value = instruction.opname, instruction.argval
            if name in ("LOAD_GLOBAL", "LOAD_NAME"):
                self.globals.add(value)
            elif name in ("STORE_GLOBAL", "STORE_DEREF"):
                self.assigned.add(value)
            elif name == "STORE_ATTR":
                self.attributes.add(value)
            elif name == "IMPORT_NAME":
                self.imports.add((value, _level(instructions, place)))
            if name in _LOADS and _changes_in_place(instructions, place):
                self.mutated.add(value)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._look_at(constant)


def _level(instructions, place):
    """Find the level of an import: 0, or the number of dots before the name."""
    level = instructions[place - 2].argval if place >= 2 else 0
    return level if isinstance(level, int) else 0


def _changes_in_place(instructions, place):
    """Tell whether what is loaded is changed at once: ``x.append(...)``, ``x[0] += 1``."""
    following = [i.opname for i in instructions[place + 1 : place + 6]]
    if not following:
        return False
    if following[0] in ("LOAD_ATTR", "LOAD_METHOD"):
        return instructions[place + 1].argval in _MUTATORS
    if not following[0].startswith(("LOAD_CONST", "LOAD_FAST", "LOAD_SMALL_INT", "LOAD_DEREF")):
        return False
    # An index, then either the assignment, or both once more to read what is added to.
    return following[1:2] == ["STORE_SUBSCR"] or following[1:3] == ["COPY", "COPY"]


@lru_cache(maxsize=4096)
def code_facts(code):
    """Give the facts of a code object, from memory where it was looked at before.

    Parameters
    ----------
    code : code object
        The code.

    Returns
    -------
    facts : CodeFacts
        The facts.
    """
    return CodeFacts(code)


@lru_cache(maxsize=1024)
def installed_as(module_name):
    """Give package and version of a module that is installed.

    Parameters
    ----------
    module_name : str or None
        Name of the module.

    Returns
    -------
    package : str or None
        For example "numpy 2.4.0"; None for code of the user's own, which has no version.
    """
    top = (module_name or "__main__").partition(".")[0]
    if top == "__main__":
        return None
    if top in sys.stdlib_module_names:
        return f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    module = sys.modules.get(top)
    version = getattr(module, "__version__", None)
    if top == "sktransfer":
        return f"{top} {version}"
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
    places = [os.path.realpath(place) for place in places if place]
    if not any(place.startswith(_LIBRARIES) for place in places):
        return None
    if not isinstance(version, str):
        try:
            version = metadata.version(top)
        except metadata.PackageNotFoundError:
            return None
    return f"{top} {version}"


def package_of(obj):
    """Give package and version of a function or class that its name is enough for.

    Parameters
    ----------
    obj : function or type
        The object.

    Returns
    -------
    package : str or None
        None for code of the user's own, and for what is not found under its name, such as a
        function inside another one.
    """
    package = installed_as(obj.__module__)
    found = sys.modules.get(obj.__module__) if package is not None else None
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    return package if found is obj else None


def functions_of(cls):
    """Give the functions that a class itself defines, without what is wrapped around them.

    Parameters
    ----------
    cls : type
        The class.

    Returns
    -------
    functions : list of function
        Also those of properties, class methods and static methods.
    """
    found = []
    for value in vars(cls).values():
        function = inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", value)))
        if isinstance(function, types.FunctionType):
            found.append(function)
    return found


def own_classes(cls):
    """Give those of a class and its bases that are the user's own code.

    Parameters
    ----------
    cls : type
        The class.

    Returns
    -------
    classes : list of type
        In the order in which Python looks for methods.
    """
    return [base for base in cls.__mro__ if package_of(base) is None]


def source_of_import(name, level, package):
    """Find the file of a module that a function imports only when it runs.

    Parameters
    ----------
    name : str
        Its name.
    level : int
        Number of dots before it.
    package : str or None
        Where the importing module lies.

    Returns
    -------
    path : str or None
        Its source file, None for an installed module or one that is not found.
    """
    name = "." * level + name if level else name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(name, package)
    except (ImportError, ValueError, AttributeError, TypeError):
        return None
    origin = getattr(spec, "origin", None)
    if spec is None or not origin or not os.path.isfile(origin):
        return None
    if os.path.realpath(origin).startswith(_LIBRARIES) or spec.name.startswith("sktransfer"):
        return None
    return origin
