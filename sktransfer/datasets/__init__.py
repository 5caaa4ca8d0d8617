"""The bundled tiny zoo, targets for it, references, and loaders for your own data."""

from sktransfer.datasets._decision_calibrations import load_decision_calibration
from sktransfer.datasets._digits import load_digits_target
from sktransfer.datasets._image_files import check_image_files
from sktransfer.datasets._loaders import load_image_folder
from sktransfer.datasets._medmnist_files import find_medmnist_targets, load_medmnist_sources
from sktransfer.datasets._medmnist_reference import MedMNISTReference, load_medmnist_reference
from sktransfer.datasets._npz import load_npz_target
from sktransfer.datasets._tiny_benchmark import load_tiny_benchmark
from sktransfer.datasets._tiny_benchmark_agreement import CellAgreement
from sktransfer.datasets._tiny_benchmark_cells import TinyBenchmark
from sktransfer.datasets._tiny_zoo import load_tiny_zoo
from sktransfer.datasets._torch_dataset import load_torch_dataset

__all__ = [
    "CellAgreement",
    "MedMNISTReference",
    "TinyBenchmark",
    "check_image_files",
    "find_medmnist_targets",
    "load_decision_calibration",
    "load_digits_target",
    "load_image_folder",
    "load_medmnist_reference",
    "load_medmnist_sources",
    "load_npz_target",
    "load_tiny_benchmark",
    "load_tiny_zoo",
    "load_torch_dataset",
]
