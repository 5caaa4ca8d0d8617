"""Warnings that point at the line of the caller, however deep in the package they are raised."""

import os
import sys
import warnings

import joblib
import sklearn

from ._heard import hear

__all__ = ["announce"]

# Frames of this package, and of those whose wrappers stand between it and the caller, are passed
# over.
_PASSED_OVER = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep
    for path in (os.path.dirname(__file__), sklearn.__file__, joblib.__file__)
)


def announce(message, category):
    """Warn on behalf of the first caller outside of this package, scikit-learn and joblib.

    Parameters
    ----------
    message : str
        The message.
    category : type
        The kind of warning.
    """
    if hear(message, category):
        return
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED_OVER):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
