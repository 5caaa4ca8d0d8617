"""Data frames, where pandas is installed."""

__all__ = ["data_frame"]


def data_frame(columns, asker):
    """Bring columns into a data frame.

    Parameters
    ----------
    columns : dict of str to sequence
        The columns.
    asker : str
        What needs it, for the message.

    Returns
    -------
    frame : pandas.DataFrame
        The frame.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            f"{asker} requires pandas. You can install it with `pip install pandas`; everything is "
            "in the attributes too."
        ) from error
    return pd.DataFrame(columns)
