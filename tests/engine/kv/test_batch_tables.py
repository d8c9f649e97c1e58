"""Page tables of a batch on the device against plain lists, through all that a batch goes through."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from engine.kv.in_place import BatchTables, table_pages
from engine.kv.page_table import NO_PAGE, PageTable
from engine.steps.staging import Staging

PAGE, PARTITION = 16, 64


def table(length: int, first: int = 0) -> PageTable:
    """A sequence before its next token, for which it has a page."""
    pages = PageTable()
    pages.pages, pages.length = list(range(first, first + length // PAGE + 1)), length
    return pages


def check(batches: BatchTables, tables: list[PageTable]) -> None:
    batch = batches.batch(tables, 1)
    width = table_pages(max(each.length for each in tables) + 1, PARTITION, PAGE)
    expected = [[*each.pages[:width], *[NO_PAGE] * (width - len(each.pages))] for each in tables]
    assert np.array(batch.tables).tolist() == expected
    assert batch.tables.dtype == mx.int32
    assert np.array(batch.lengths).tolist()[: len(tables)] == [each.length for each in tables]
    batches.stepped(batch.lengths + 1)


def test_tables_are_those_of_the_sequences_whatever_becomes_of_these() -> None:
    random, batches = Random(3), BatchTables(PAGE, PARTITION, Staging())
    tables, fresh = [table(5)], 100
    for _ in range(400):
        what = random.random()
        if what < 0.04 and len(tables) > 1:
            tables.pop(random.randrange(len(tables)))
        elif what < 0.1 and len(tables) < 12:
            tables.insert(random.randrange(len(tables) + 1), table(random.randrange(150), fresh))
            fresh += 20
        elif what < 0.13:
            changed = random.choice(tables)
            changed.pages[random.randrange(len(changed.pages))] = fresh  # copied on write, or exchanged
            fresh += 1
        elif what < 0.15:
            shortened = random.choice(tables)
            shortened.length //= 2
            del shortened.pages[shortened.length // PAGE + 1 :]
        else:
            for each in tables:
                each.length += 1
                if each.length // PAGE == len(each.pages):
                    each.pages.append(fresh)
                    fresh += 1
        check(batches, tables)


def test_lengths_are_those_of_the_sequences_after_a_step_that_broke() -> None:
    batches, tables = BatchTables(PAGE, PARTITION, Staging()), [table(5), table(9, 100)]
    check(batches, tables)
    for each in tables:
        each.length += 1
    batches.batch(tables, 1)  # nothing is said of what came of it
    for each in tables:
        each.length += 1
    check(batches, tables)


class CountingStaging(Staging):
    """Tells how many arrays it was asked for."""

    asked = 0

    def integers(self, numbers: Sequence[int] | NDArray[np.int32]) -> mx.array:
        self.asked += 1
        return super().integers(numbers)


@pytest.mark.parametrize(("pages", "written"), [(1, 0), (8, 0), (9, 1)])
def test_the_host_writes_no_table_for_a_few_pages_more(pages: int, written: int) -> None:
    staging = CountingStaging()
    batches, tables = BatchTables(PAGE, PARTITION, staging), [table(20, 10 * first) for first in range(12)]
    check(batches, tables)
    for each in tables:
        each.length += 1
    for each in tables[:pages]:
        each.pages.append(900 + each.pages[0])
    before = staging.asked
    check(batches, tables)
    assert staging.asked - before == written
