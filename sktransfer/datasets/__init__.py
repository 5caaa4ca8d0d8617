"""The bundled tiny zoo, a target for it, and loaders for data of one's own."""

from sktransfer.datasets._digits import load_digits_target
from sktransfer.datasets._loaders import load_image_folder, load_npz_target
from sktransfer.datasets._tiny_zoo import load_tiny_zoo

__all__ = ["load_digits_target", "load_image_folder", "load_npz_target", "load_tiny_zoo"]
