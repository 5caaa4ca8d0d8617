"""Which pretrained network to fine-tune on your data, and how far to trust that answer."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sktransfer")
except PackageNotFoundError:  # a source tree on the path that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
