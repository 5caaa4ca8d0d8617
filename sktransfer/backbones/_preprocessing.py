"""What a network wants done to an image before it sees it: size, channels and normalisation."""

import math
from dataclasses import dataclass
from hashlib import sha256
from numbers import Integral

import torch
from torch.nn import functional

__all__ = ["ImagePreprocessing"]

# Weights of red, green and blue in a grey value (ITU-R BT.601, what image files use too).
_LUMA = (0.299, 0.587, 0.114)
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic")
_FITS = ("cover", "contain", "stretch")
# Part of every digest: raised when the same parameters come to mean other pixels.
_VERSION = 1
# Floats this close to whole 255ths are 8-bit pixels; half precision is off by 0.06.
_LEVEL_TOLERANCE = 0.1


@dataclass(frozen=True)
class ImagePreprocessing:
    """What a network wants done to an image: resize, crop or pad, channels, normalisation.

    Resizing is done with 8 bits where the pixels have 8 bits, smooths when it reduces, and rounds
    where Pillow rounds. The result is within 1e-2 of what torchvision's and timm's own transforms
    make of a Pillow image, relative to its norm.

    Parameters
    ----------
    mean, std : sequence of float
        One number, or one per channel, in units of pixels between 0 and 1.
    size : int, (int, int) or None, default=None
        Height and width that come out; None leaves the size to ``resize``.
    channels : int or None, default=None
        1 turns colour into grey, 3 repeats grey; None keeps the channels.
    interpolation : {"nearest", "bilinear", "bicubic"}, default="bilinear"
        How to resize; the last two smooth when they reduce.
    resize : int, (int, int) or None, default=None
        What images are resized to before ``size`` is cut out of their centre: an integer is the
        length of the shorter side (of the longer one with ``fit="contain"``), a pair is a height
        and a width. None resizes to ``size`` itself whatever the shape of the image.
    fit : {"cover", "contain", "stretch"}, default="cover"
        How the image fills ``resize``: as the smallest that covers it or the largest that it
        contains, both with the ratio of the sides kept, or stretched to it.
    fill : sequence of float, default=(0.0,)
        Pixels between 0 and 1 around an image that is smaller than ``size``; one number, or one
        per channel.

    Raises
    ------
    ValueError
        For parameters out of range.

    Examples
    --------
    >>> import torch
    >>> from sktransfer.backbones._preprocessing import ImagePreprocessing
    >>> preprocessing = ImagePreprocessing((0.5,), (0.5,), size=224, channels=3, resize=256)
    >>> pixels = torch.zeros(2, 1, 300, 400, dtype=torch.uint8)
    >>> preprocessing(pixels).shape
    torch.Size([2, 3, 224, 224])
    """

    mean: tuple
    std: tuple
    size: tuple | None = None
    channels: int | None = None
    interpolation: str = "bilinear"
    resize: int | tuple | None = None
    fit: str = "cover"
    fill: tuple = (0.0,)

    def __post_init__(self):
        for name in ("mean", "std", "fill"):
            values = tuple(float(value) for value in getattr(self, name))
            if not values or not all(map(math.isfinite, values)):
                raise ValueError(f"'{name}' must hold finite numbers, got {values}.")
            object.__setattr__(self, name, values)
        if min(self.std) <= 0:
            raise ValueError(f"'std' must be positive, got {self.std}.")
        if self.interpolation not in _INTERPOLATIONS:
            raise ValueError(
                f"'interpolation' must be one of {_INTERPOLATIONS}, got {self.interpolation!r}."
            )
        if self.fit not in _FITS:
            raise ValueError(f"'fit' must be one of {_FITS}, got {self.fit!r}.")
        size, resize = _sides(self.size, "size"), _sides(self.resize, "resize")
        if isinstance(resize, int) and self.fit == "stretch":
            resize = (resize, resize)
        object.__setattr__(self, "size", (size, size) if isinstance(size, int) else size)
        object.__setattr__(self, "resize", resize)

    @classmethod
    def from_torchvision(cls, transforms, channels=3):
        """Take over the preprocessing that belongs to weights of torchvision.

        Parameters
        ----------
        transforms : callable
            ``weights.transforms()`` of a classification network.
        channels : int, default=3
            Channels of the images that the network takes.

        Returns
        -------
        preprocessing : ImagePreprocessing
            Does the same.

        Raises
        ------
        ValueError
            If it does not tell size, crop, mean, std and interpolation.
        """
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        missing = [name for name in names if getattr(transforms, name, None) is None]
        if missing:
            raise ValueError(
                f"The preprocessing of the weights does not tell {', '.join(missing)}: "
                f"{type(transforms).__name__} is none of torchvision's for classification."
            )
        crop, resize = list(transforms.crop_size), list(transforms.resize_size)
        interpolation = transforms.interpolation
        return cls(
            mean=transforms.mean,
            std=transforms.std,
            size=tuple(crop * 2 if len(crop) == 1 else crop),
            channels=channels,
            interpolation=str(getattr(interpolation, "value", interpolation)),
            resize=resize[0] if len(resize) == 1 else tuple(resize),
            # Two numbers are a height and a width there; one is the shorter side.
            fit="cover" if len(resize) == 1 else "stretch",
        )

    @classmethod
    def from_timm(cls, config):
        """Take over the preprocessing that timm keeps with a network.

        Parameters
        ----------
        config : dict
            With ``input_size``, ``mean``, ``std``, ``interpolation``, and maybe ``crop_pct`` and
            ``crop_mode``, as ``timm.data.resolve_model_data_config`` gives it.

        Returns
        -------
        preprocessing : ImagePreprocessing
            Does what timm's transforms for evaluation do.

        Raises
        ------
        ValueError
            If something is missing or has no meaning.
        """
        names = ("input_size", "mean", "std", "interpolation")
        missing = [name for name in names if config.get(name) is None]
        if missing:
            raise ValueError(f"The configuration of the network does not tell {missing}.")
        channels, *size = config["input_size"]
        # A part of 0.875 and the centre are what timm's transforms take where nothing is said.
        part, mode = config.get("crop_pct") or 0.875, config.get("crop_mode") or "center"
        fits = {"center": "cover", "squash": "stretch", "border": "contain"}
        if mode not in fits:
            raise ValueError(f"'crop_mode' must be one of {list(fits)}, got {mode!r}.")
        resize = tuple(math.floor(side / part) for side in size)
        return cls(
            mean=config["mean"],
            std=config["std"],
            size=tuple(size),
            channels=int(channels),
            interpolation=config["interpolation"],
            # The shorter side is rounded in another way than a side of two.
            resize=resize[0] if mode == "center" and resize[0] == resize[1] else resize,
            fit=fits[mode],
            fill=[round(255 * value) / 255 for value in config["mean"]]
            if mode == "border"
            else (0.0,),
        )

    def digest(self):
        """Give a name of what is done that is the same in every process.

        Returns
        -------
        digest : str
            Hexadecimal; another one for any parameter that is another.
        """
        return sha256(f"{_VERSION} {self!r}".encode()).hexdigest()

    def __call__(self, images):
        """Preprocess a batch of images of one size.

        Parameters
        ----------
        images : tensor of shape (n, channels, height, width), uint8 or float32
            Pixels from 0 to 255, or between 0 and 1. Never changed.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            What the network is given, contiguous.
        """
        return self.normalise(self.reshape(images))

    def reshape(self, images):
        """Resize and crop; the pixels stay pixels.

        Parameters
        ----------
        images : tensor of shape (n, channels, height, width), uint8 or float32
            Images of one size.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), uint8 or float32
            Images of the size that the network wants. Floats become uint8 where they were 8-bit
            pixels and had to be resized.
        """
        self._check_channels(images.shape[1])
        target = self._resized(*images.shape[2:])
        if tuple(images.shape[2:]) != target:
            parts = [images] if images.dtype == torch.uint8 else _as_levels(images)
            parts = [self._cut(self._interpolate(part, target)) for part in parts]
            if len({part.dtype for part in parts}) > 1:
                parts = [p.float().div_(255.0) if p.dtype == torch.uint8 else p for p in parts]
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        return self._cut(images)

    def normalise(self, images):
        """Bring pixels to the channels, mean and standard deviation that the network knows.

        Parameters
        ----------
        images : tensor of shape (n, channels, height, width), uint8 or float32
            Images of the right size. Never changed.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            What the network is given, contiguous.
        """
        self._check_channels(images.shape[1])
        given, images = images, images.contiguous().to(torch.float32)
        if given.dtype == torch.uint8:
            images.div_(255.0)
        channels = images.shape[1] if self.channels is None else self.channels
        if (images.shape[1], channels) == (3, 1):
            images = (images * images.new_tensor(_LUMA)[:, None, None]).sum(dim=1, keepdim=True)
        for name in ("mean", "std"):
            if len(getattr(self, name)) not in (1, channels):
                raise ValueError(
                    f"'{name}' has {len(getattr(self, name))} values, the images have "
                    f"{channels} channels."
                )
        mean = images.new_tensor(self.mean)[:, None, None]
        std = images.new_tensor(self.std)[:, None, None]
        # Never in place in what was given, which may be the user's own memory.
        in_place = images.shape[1] == channels and given.dtype == torch.uint8
        images = images.sub_(mean) if in_place else images.expand(-1, channels, -1, -1) - mean
        return images.div_(std).contiguous()

    def _check_channels(self, found):
        wanted = self.channels
        if wanted is not None and found not in (wanted, 1) and (wanted, found) != (1, 3):
            raise ValueError(
                f"The network takes images with {wanted} channels, got images with {found}."
            )

    def _resized(self, height, width):
        """Give the height and width after resizing, rounded as torchvision and timm round."""
        if self.resize is None:
            return self.size or (height, width)
        if self.fit == "stretch":
            return self.resize
        if isinstance(self.resize, int) and self.fit == "cover":
            shorter, longer = sorted((height, width))
            longer = int(self.resize * longer / shorter)
            return (self.resize, longer) if height <= width else (longer, self.resize)
        sides = (self.resize,) * 2 if isinstance(self.resize, int) else self.resize
        ratios = (height / sides[0], width / sides[1])
        ratio = min(ratios) if self.fit == "cover" else max(ratios)
        return max(1, round(height / ratio)), max(1, round(width / ratio))

    def _interpolate(self, images, size):
        if self.interpolation == "nearest":
            return functional.interpolate(images, size, mode="nearest-exact")
        options = {"mode": self.interpolation, "align_corners": False, "antialias": True}
        if images.dtype == torch.uint8:
            return functional.interpolate(images, size, **options)
        # Rows and columns one after the other: what overshoots is cut in between, as for 8 bits.
        for step in ((images.shape[2], size[1]), size):
            images = functional.interpolate(images, step, **options).clamp_(0.0, 1.0)
        return images

    def _cut(self, images):
        """Cut the centre out, after padding where there is too little."""
        if self.size is None or tuple(images.shape[2:]) == self.size:
            return images
        lack = [max(0, self.size[axis] - images.shape[2 + axis]) for axis in (0, 1)]
        if any(lack):
            images = self._padded(images, lack)
        top, left = (
            round((found - wanted) / 2)
            for found, wanted in zip(images.shape[2:], self.size, strict=True)
        )
        # A copy, so that what was cut off need not be kept.
        return images[:, :, top : top + self.size[0], left : left + self.size[1]].contiguous()

    def _padded(self, images, lack):
        n, channels, height, width = images.shape
        if len(self.fill) > channels == 1:
            channels = len(self.fill)
        scale = 255 if images.dtype == torch.uint8 else 1
        fill = torch.tensor(self.fill) * scale
        fill = (fill.round() if scale == 255 else fill).to(images.dtype)[:, None, None]
        padded = fill.expand(n, channels, height + lack[0], width + lack[1]).clone()
        top, left = lack[0] // 2, lack[1] // 2
        padded[:, :, top : top + height, left : left + width] = images
        return padded


def _sides(value, name):
    """Check one or two lengths of sides."""
    if value is None:
        return None
    sides = (value,) if isinstance(value, Integral) else tuple(value)
    if not all(isinstance(side, Integral) and side > 0 for side in sides) or not (
        len(sides) == 2 or isinstance(value, Integral)
    ):
        raise ValueError(f"'{name}' must be one positive integer or two, got {value!r}.")
    return int(value) if isinstance(value, Integral) else tuple(map(int, sides))


def _as_levels(images):
    """Give float images as uint8 where they are 255ths: a list of one batch or of single images.

    Equal pixels are then resized in the same way, whatever type of numbers they came in. Decided
    image by image, so that an image does not depend on the others in its batch.
    """
    scaled = images * 255.0
    levels = scaled.round()
    close = (scaled.sub_(levels).abs_() < _LEVEL_TOLERANCE).flatten(1).all(dim=1)
    if close.all():
        return [levels.to(torch.uint8)]
    if not close.any():
        return [images]
    return [
        levels[row : row + 1].to(torch.uint8) if close[row] else images[row : row + 1]
        for row in range(len(images))
    ]
