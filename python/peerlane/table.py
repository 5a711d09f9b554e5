"""Tables, for pandas, Polars, NumPy and whatever reads Arrow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars

    from peerlane import _native


def need(name: str) -> Any:
    """A library that not everybody has.

    Raises ImportError, with what to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install {name}") from error


#: What pandas calls the kinds of columns.
_DTYPES = {"flag": "boolean", "integer": "Int64", "number": "float64", "text": "str"}


class Table:
    """Columns of equal length. Any library that takes Arrow's PyCapsules reads it: `pyarrow.table(table)`."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.columns

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<peerlane.Table of {len(self)} rows: {', '.join(self.columns)}>"

    def __getitem__(self, name: str) -> Any:
        """A column: a NumPy array of numbers with NaN for none, or a list of texts, integers and truth values."""
        column = self._native.column(name)
        return need("numpy").frombuffer(column, dtype="float64") if isinstance(column, bytes) else column

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a DataFrame."""
        library = need("pandas")
        kinds = zip(self.columns, self._native.kinds)
        # pandas's own kinds know that there is none
        columns = {name: library.array(self[name], dtype=_DTYPES[kind]) for name, kind in kinds}
        frame: pandas.DataFrame = library.DataFrame(columns)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table as a DataFrame of Polars."""
        frame: polars.DataFrame = need("polars").DataFrame(self)
        return frame

    def _repr_html_(self) -> str:
        from peerlane._base import html_table

        few = 10
        columns = [self._native.column(name) for name in self.columns]
        lists = [memoryview(c).cast("d").tolist() if isinstance(c, bytes) else c for c in columns]
        rows = list(zip(*(column[:few] for column in lists)))
        more = f"<p>{len(self)} rows</p>" if len(self) > few else ""
        return f"<div>{html_table(tuple(self.columns), rows)}{more}</div>"
