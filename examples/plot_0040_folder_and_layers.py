"""
A folder of images, the depth of a network, and a store of features
===================================================================

Images lie in a folder with a sub-folder for each class. Which network should be fine-tuned on
them, and is its last layer the right one to look at? The layers of a network can be candidates of
their own; the network runs once for all of them, and with a store of features once for all time.
"""

# %%
# The folder
# ----------
#
# Digits that people have written, as small files, and one file that a broken download left behind.

import tempfile
import warnings
from pathlib import Path

from PIL import Image

from sktransfer.datasets import load_digits_target, load_image_folder
from sktransfer.exceptions import SkippedFilesWarning

digits = load_digits_target()
place = tempfile.TemporaryDirectory()
folder = Path(place.name) / "images"
pairs = zip(digits.images_train[:300], digits.y_train[:300], strict=True)
for row, (image, label) in enumerate(pairs):
    file = folder / f"digit-{label}" / f"{row:03}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(file)
(folder / "digit-3" / "broken.png").write_bytes(b"half of a file")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", SkippedFilesWarning)  # it is printed below
    target = load_image_folder(folder, on_error="skip")
print(f"{len(target.X)} images, {len(target.target_names)} classes")
for path, reason in zip(target.skipped, target.reasons, strict=True):
    print(f"left out with its label: {Path(path).name}, {reason}")

# %%
# Layers as candidates
# --------------------
#
# ``layer_candidates`` finds the stages of a network by its structure. Four bundled networks with
# three stages each make twelve candidates; one pass of each network serves all of its stages.
# ``TorchvisionBackbone("mobilenet_v2")`` or ``TimmBackbone("resnet18.a1_in1k")`` could stand in the
# place of the bundled ones.

from sktransfer.backbones import FeatureStore, TinyZooBackbone, layer_candidates
from sktransfer.model_selection import TransferabilitySelector

candidates = []
for name in ("mnist", "letters", "textures", "untrained"):
    candidates += layer_candidates(TinyZooBackbone(name))
store = FeatureStore(Path(place.name) / "features")
selector = TransferabilitySelector(candidates, memory=store).fit(target.X, target.y)
table = selector.to_frame()
table[["rank", "candidate", "logme", "n_features", "pretrained"]]

# %%
# The second time
# ---------------
#
# The store is found by content: the weights, the layers, the preprocessing and every byte of the
# images. The same question asked again, in another process or with another metric, runs no network
# but for two images that show whether it still computes what it did.

import time

again = TransferabilitySelector(candidates, ["logme", "hscore"], memory=store)
start = time.perf_counter()
again.fit(target.X, target.y)
seconds = time.perf_counter() - start
print(f"{seconds:.1f} s instead of {table['extraction_seconds'].sum():.1f} s for the features")
print(
    "the same scores:", all(again.scores_[name] == selector.scores_[name] for name in again.scores_)
)
for entry in store.entries():
    print(f"{entry.candidate:20} {entry.n_rows} x {entry.n_columns}")

# %%
# How deep is best?
# -----------------
#
# Depth pays for all of them here, and most for the network that was trained on digits. Deeper
# stages are wider too, which is worth something by itself: the untrained network shows how much.
# The last stage of the network trained on textures has less to give than the middle one of the
# other two. Where a stage in the middle is best, the network's own head has led the last ones
# away from what the target needs.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name in ("mnist", "letters", "textures", "untrained"):
    layers = [key for key in selector.scores_ if key.startswith(f"{name}@")]
    style = {"linestyle": "--", "color": "gray"} if name == "untrained" else {}
    scores = [selector.scores_[key] for key in layers]
    axis.plot([key.partition("@")[2] for key in layers], scores, marker="o", label=name, **style)
axis.set(xlabel="layer", ylabel="LogME")
axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# sphinx_gallery_start_ignore
place.cleanup()
# sphinx_gallery_end_ignore
