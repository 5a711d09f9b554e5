"""What all documents have in common: they are read when they are looked at."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from html import escape
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterator

from peerlane import _native
from peerlane.table import Table, need

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    from numpy.typing import NDArray


def many(convert: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Makes each of a list."""
    return lambda raw: tuple(map(convert, raw))


class Part:
    """A part of a document. A field is made of JSON when it is first looked at; the JSON of large parts, too."""

    __slots__ = ("_raw",)
    _raw: Any
    #: What makes a field of what JSON holds, by its name in JSON, where it is not the same.
    _MADE: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    @classmethod
    def _of(cls, raw: Any) -> Any:
        part = cls.__new__(cls)
        object.__setattr__(part, "_raw", raw)
        return part

    if not TYPE_CHECKING:
        # asked only where a field's slot is empty
        def __getattr__(self, name: str) -> Any:
            field = type(self).__dataclass_fields__.get(name)
            if field is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raw = self._raw
            if callable(raw):
                raw = raw()
                object.__setattr__(self, "_raw", raw)
            # a name that Python reserves has a stroke after it
            key = name.rstrip("_")
            value = raw.get(key)
            if value is None:
                value = None if field.default is MISSING else field.default
            elif key in self._MADE:
                value = self._MADE[key](value)
            object.__setattr__(self, name, value)
            return value

    def __repr__(self) -> str:
        values = [(field, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]
        shown = [f"{field.name}={_short(value)}" for field, value in values if value is not None and value != ()]
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, Part):
        return f"{type(value).__name__}(…)"
    return f"({len(value)} …)" if isinstance(value, tuple) and len(value) > 3 else repr(value)


class MatrixMethods(Part):
    """A matrix: a row for each source, a column for each destination."""

    __slots__ = ()
    if TYPE_CHECKING:
        rows: tuple[str, ...]
        cols: tuple[str, ...]
        values: tuple[tuple[float | None, ...], ...]

    def to_numpy(self, field: str = "values") -> NDArray[numpy.float64]:
        """`values`, `low` or `high` as an array, with NaN where there is none."""
        array: NDArray[numpy.float64] = need("numpy").array(getattr(self, field), dtype="float64")
        return array

    def to_pandas(self, field: str = "values") -> pandas.DataFrame:
        """The same with the names of rows and columns."""
        frame: pandas.DataFrame = need("pandas").DataFrame(self.to_numpy(field), index=self.rows, columns=self.cols)
        return frame


class Document(Part):
    """An answer: what the program writes for `--json`."""

    __slots__ = ("_source",)
    _source: _native.Document | _Kept
    #: The lists, one within the other, whose items are the rows of its table.
    _ROWS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _answer(cls, native: _native.Document | _Kept) -> Any:
        document: Document = cls._of(lambda: document._head())
        object.__setattr__(document, "_source", native)
        return document

    def _head(self) -> Any:
        return json.loads(self._source.head())

    def _later(self, machine: int) -> Callable[[], Any]:
        return lambda: json.loads(self._source.comparison(machine))

    def table(self) -> Table:
        """A row for each of what the document lists: hops, designs, points, choices, groups or figures.

        Columns are what is known of each, beginning with what is known of the whole.
        """
        rows = [_flat(row) for row in _rows(self.to_dict(), self._ROWS)]
        names = list(dict.fromkeys(name for row in rows for name in row if name != "schema"))
        return Table(_native.Table([(name, [row.get(name) for row in rows]) for name in names]))

    def to_pandas(self) -> pandas.DataFrame:
        """`table()` as a DataFrame."""
        return self.table().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """`table()` as a DataFrame of Polars."""
        return self.table().to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def to_json(self) -> str:
        """The document as the program writes it."""
        return self._source.json().decode()

    def to_dict(self) -> dict[str, Any]:
        """The document as dictionaries and lists."""
        document: dict[str, Any] = json.loads(self._source.json())
        return document

    def __reduce__(self) -> Any:
        native = self._source
        kept = native if isinstance(native, _Kept) else _Kept(native)
        return type(self)._answer, (kept,)


def _rows(part: dict[str, Any], path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not path:
        yield part
        return
    whole = {name: value for name, value in part.items() if not isinstance(value, (list, dict))}
    for item in part.get(path[0]) or ():
        for row in _rows(item, path[1:]):
            yield {**whole, **row}


def _flat(part: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Values by their names with a full stop between, and words in one text; other lists are no cells of a table."""
    cells: dict[str, Any] = {}
    for name, value in part.items():
        if isinstance(value, dict):
            cells.update(_flat(value, f"{before}{name}."))
        elif not isinstance(value, list):
            cells[before + name] = value
        elif value and all(isinstance(word, str) for word in value):
            cells[before + name] = " ".join(value)
    return cells


class _Kept:
    """A document that came from another process."""

    def __init__(self, native: _native.Document) -> None:
        heads = [native.head(), *(native.comparison(i) for i in range(native.machines))]
        self._parts, self._all, self._cells = heads, native.json(), native.cells()

    def head(self) -> bytes:
        return self._parts[0]

    def comparison(self, machine: int) -> bytes:
        return self._parts[machine + 1]

    def json(self) -> bytes:
        return self._all

    def cells(self) -> _native.Table:
        return self._cells


class _Compared(Document):
    __slots__ = ()

    def cells(self) -> Table:
        """Every expected and measured value, a row each: `Node.cells` describes the columns."""
        return Table(self._source.cells())

    table = cells


class CheckMethods(_Compared):
    """Methods of a check."""

    __slots__ = ()
    if TYPE_CHECKING:
        verdict: str
        findings: tuple[Any, ...]
        machines: tuple[Any, ...]

    def _head(self) -> Any:
        raw = super()._head()
        for i, machine in enumerate(raw["machines"]):
            machine["comparison"] = self._later(i)
        return raw

    def _repr_html_(self) -> str:
        rows = [(f.severity, f.machine, f.summary, f.fix) for f in self.findings[:_MOST]]
        more = len(self.findings) - len(rows)
        said = "".join(f"<p><b>{escape(m.name)}</b>: {escape(m.verdict)}</p>" for m in self.machines[:_MOST])
        table = html_table(("severity", "machine", "finding", "fix"), rows) if rows else "<p>No finding.</p>"
        return f"<div>{said}{table}{f'<p>and {more} more</p>' if more > 0 else ''}</div>"


class PredictionMethods(_Compared):
    """Methods of a prediction."""

    __slots__ = ()
    if TYPE_CHECKING:
        matrices: tuple[Any, ...]

    def _head(self) -> Any:
        raw = super()._head()
        machines = raw.get("machines")
        for i, machine in enumerate(machines or [raw]):
            machine["comparison"] = self._later(i)
        return raw

    def _repr_html_(self) -> str:
        for matrix in self.matrices[:1]:
            which = ", ".join(str(word) for word in (matrix.machine, matrix.quantity, matrix.op, matrix.engine) if word)
            cols = matrix.cols[:_MOST]
            lines = zip(matrix.rows[:_MOST], matrix.values)
            rows = [(name, *("" if v is None else f"{v:.1f}" for v in line[:_MOST])) for name, line in lines]
            more = "" if len(matrix.rows) <= _MOST and len(matrix.cols) <= _MOST else "<p>The first of more.</p>"
            title = f"<p>{escape(which)} ({escape(matrix.unit)}), 1 of {len(self.matrices)}</p>"
            return f"<div>{title}{html_table(('', *cols), rows)}{more}</div>"
        return "<p>Too little is known to predict anything.</p>"


#: Rows and columns that a notebook shows.
_MOST = 16


def html_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table whose every cell is escaped."""

    def line(cells: tuple[Any, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
