"""A reference ranking as plain files: a table of values, and a description in JSON."""

import csv
import io
import json
import os
from hashlib import sha256
from pathlib import Path

from sktransfer.utils._files import write_file

__all__ = ["read_result", "write_file", "write_result"]

_DESCRIPTION = "reference.json"
_TABLES = {"csv": "values.csv", "parquet": "values.parquet"}
_FORMAT = 1


def _check_name(folder):
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"'folder' must be a text or a path. Got {folder!r} instead.")
    if not os.fspath(folder):
        raise ValueError("'folder' must be the name of a folder. Got '' instead.")


def write_result(folder, rows, about, kinds, table_format):
    """Write rows and what is known of them.

    Parameters
    ----------
    folder : str or path
        Where to; it is made if it is not there.
    rows : list of named tuple
        The table.
    about : dict
        All else, as JSON knows it.
    kinds : dict of str to type
        By column: str, bool, int or float. Numbers may be None.
    table_format : {"auto", "csv", "parquet"}
        "auto" is parquet if pyarrow is installed.

    Raises
    ------
    TypeError
        If the folder is neither a text nor a path.
    ImportError
        If parquet is asked for and pyarrow is not installed.
    ValueError
        If there is no such format, or the folder cannot be written to.
    """
    _check_name(folder)
    if not (isinstance(table_format, str) and table_format in ("auto", *_TABLES)):
        raise ValueError(
            f"'format' must be 'auto', 'csv' or 'parquet'. Got {table_format!r} instead."
        )
    if table_format != "csv":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            if table_format == "parquet":
                raise ImportError("format='parquet' needs pyarrow; 'csv' needs nothing.") from None
            table_format = "csv"
        else:
            table_format = "parquet"
    write = _as_csv if table_format == "csv" else _as_parquet
    table = write(rows, kinds)
    content = {
        "format": _FORMAT,
        "table": _TABLES[table_format],
        "table_sha256": sha256(table).hexdigest(),
        "n_rows": len(rows),
        **about,
    }
    content["sha256"] = _digest(content)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / _TABLES[table_format], table)
        write_file(folder / _DESCRIPTION, json.dumps(content, indent=1).encode())
        for name in set(_TABLES.values()) - {_TABLES[table_format]}:  # of an earlier ranking
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(
            f"'folder' must be a folder that can be made and written to. Got {os.fspath(folder)!r} "
            f"instead ({error.strerror or error})."
        ) from error


def read_result(folder, kinds):
    """Read what :func:`write_result` has written.

    Parameters
    ----------
    folder : str or path
        Where from.
    kinds : dict of str to type
        Columns of the table.

    Returns
    -------
    rows : list of tuple
        The table.
    about : dict
        All else.

    Raises
    ------
    ValueError
        If there is no such thing, or it is not what was written.
    """
    _check_name(folder)
    folder = Path(folder)
    path = folder / _DESCRIPTION
    try:
        about = json.loads(path.read_bytes())
        digest = about.pop("sha256")
        is_whole = digest == _digest(about)
    except OSError as error:
        raise ValueError(
            f"{os.fspath(folder)!r} holds no reference ranking: {_DESCRIPTION} cannot be read "
            f"({error.strerror or error})."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{os.fspath(path)!r} is damaged ({error}).") from error
    if not is_whole:
        raise ValueError(
            f"{os.fspath(path)!r} is damaged: it is not what was written (its digest is another)."
        )
    if about["format"] != _FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} is of format {about['format']!r}, and this version of sktransfer "
            f"reads format {_FORMAT}."
        )
    table = folder / about["table"]
    try:
        content = table.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{os.fspath(table)!r} cannot be read ({error.strerror or error})."
        ) from error
    if sha256(content).hexdigest() != about["table_sha256"]:
        raise ValueError(
            f"{os.fspath(table)!r} is damaged: it is not what was written (its digest is another)."
        )
    read = _from_csv if about["table"] == _TABLES["csv"] else _from_parquet
    return read(content, kinds), about


def _digest(about):
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


# -- CSV -------------------------------------------------------------------------------------------


def _as_csv(rows, kinds):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writerow(kinds)
    # Names with line breaks of any kind have to come back as they are.
    quoted = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for row in rows:
        quoted.writerow([_written(value) for value in row])
    return buffer.getvalue().encode()


def _written(value):
    if isinstance(value, bool):
        return int(value)
    return None if value is None else float(value) if isinstance(value, float) else value


def _from_csv(content, kinds):
    lines = csv.reader(io.StringIO(content.decode(), newline=""))
    next(lines)
    return [
        tuple(_parsed(text, kind) for text, kind in zip(line, kinds.values(), strict=True))
        for line in lines
    ]


def _parsed(text, kind):
    if kind is str:
        return text
    if text == "":
        return None
    return bool(int(text)) if kind is bool else kind(text)


# -- parquet ---------------------------------------------------------------------------------------


def _as_parquet(rows, kinds):
    import pyarrow as pa
    from pyarrow import parquet

    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    columns = [
        pa.array([getattr(row, name) for row in rows], type=types[kind], from_pandas=False)
        for name, kind in kinds.items()
    ]
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns, names=list(kinds)), buffer)
    return buffer.getvalue()


def _from_parquet(content, kinds):
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "This reference ranking was saved as parquet, which needs pyarrow to be read."
        ) from None
    table = parquet.read_table(io.BytesIO(content))
    columns = [table.column(name).to_pylist() for name in kinds]
    return list(zip(*columns, strict=True))
