"""Chat templates written to hang, to fill the memory, to break the compiler, or to get out."""

from __future__ import annotations

START = "{% set n = namespace(s=1) %}"
FORTY = "{% for i in range(40) %}"
END = "{% endfor %}"


def _nested(opening: str, closing: str, times: int) -> str:
    return opening * times + closing * times


BOMBS: dict[str, str] = {
    "bytes that are padded": "{{ 'x'.encode().center(10 ** 10) | length }}",
    "bytes that are formatted": "{{ ('%' ~ '9' * 10 ~ 'd').encode() % 1 }}",
    "bytes of a number": "{{ (1).to_bytes(10 ** 10, 'big') | length }}",
    "a number of bytes": "{{ (1).from_bytes('x' * 1000000, 'big') // 3 }}",
    "many wide fields": "{{ ('{0:99999}' * 100000).format(1) | length }}",
    "many wide fields of a mapping": "{{ (('%(a)99999d' * 100000) % {'a': 1}) | length }}",
    "a format that backtracks": "{{ ('%' ~ ' ' * 50 ~ '0' * 200000) % 1 }}",
    "a long division": "{{ ('f' * 4000000) | int(base=16) // (('f' * 400000) | int(base=16)) }}",
    "a long division of literals": "{{ 0x" + "f" * 100_000 + " // 0x" + "f" * 50_000 + " }}",
    "a sum of lists": "{{ ([[0]] * 300000) | sum(start=[]) | length }}",
    "namespaces in namespaces": START + FORTY + "{% set n.s = namespace(a=n.s, b=n.s) %}" + END + "{{ n.s }}",
    "a namespace in itself": START + "{% set n.s = n %}{{ n }}",
    "views of views": START + FORTY + "{% set n.s = {1: n.s, 2: n.s}.values() %}" + END + "{{ n.s }}",
    "indented JSON": "{{ [1] | tojson(indent=10 ** 9) }}",
    "deep indented JSON": "{% set n = namespace(s=[0] * 100000) %}{% for i in range(30) %}"
    "{% set n.s = [n.s] %}" + END + "{{ n.s | tojson(indent=1000) | length }}",
    "JSON with long separators": "{{ ([1] * 100000) | tojson(separators=('x' * 1000000, ':')) | length }}",
    "words to wrap": "{{ ('x' * 4000000) | wordwrap(1) | length }}",
    "tags to strip": "{{ ('<!---->' * 500000) | striptags | length }}",
    "brackets of an address": "{{ ('x' ~ '(' * 1000000 ~ 'x' ~ ')' * 1000000) | urlize | length }}",
    "pretty printing": "{{ ([1] * 1000000) | pprint | length }}",
    "variables by the thousand": "".join(f"{{% set a{i} = 'x' * 4000000 %}}" for i in range(1000)),
    "a date in a long format": "{{ strftime_now('%250Y' * 800000) | length }}",
    "long names of attributes": "{{ ([1] * 90000) | map(attribute='a.' * 1000000, default={}) | list }}",
    "long names to sort by": "{{ ([{}] * 90000) | sort(attribute='a.' * 1000000) }}",
    "batches": "{{ [1] | batch(50000000, 'x') | list | length }}",
    "digits to round to": "{{ 1.5 | round(100000000, 'ceil') }}",
    "slices by the thousand": "{% set a = 'x' * 3900000 %}{{ ["
    + ",".join(f"a[{i}:]" for i in range(1000))
    + "] | length }}",
    "slices of a list": "{% set a = [0] * 1000000 %}"
    + "".join(f"{{% set b{i} = a[1:] %}}" for i in range(2000)),
    "constants by the thousand": "{{ 'x' | center(4000000) }}" * 1000,
}
"""They do not end, or not soon, or not within the memory, where nothing stops them."""

BROKEN: dict[str, str] = {
    "loops too deep for Python": _nested("{% for a in [1] %}", END, 30),
    "an argument twice": "{% macro m(a, a) %}{% endmacro %}",
    "a keyword twice": "{{ dict(a=1, a=2) }}",
    "a break outside": "{% break %}",
    "a long number": "{{ " + "1" * 5000 + " }}",
    "brackets": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "lists": "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "attributes": "{{ a" + ".b" * 20_000 + " }}",
    "negations": "{{ " + "not " * 20_000 + "1 }}",
    "sums": "{{ " + "+".join(["1"] * 5000) + " }}",
    "filters": "{{ 'a'" + "|upper" * 5000 + " }}",
    "conditions": _nested("{% if 1 %}", "{% endif %}", 1000),
    "calls": "{% macro m() %}{% endmacro %}" + _nested("{% call m() %}", "{% endcall %}", 500),
    "a giant": "{{ a }}" * 200_000,
    "half a pair made": "{{ '%c' % 55296 }}",
    "half a pair written": "{{ '\\ud800' }}",
    "a loop in itself": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "a block in itself": "{% block a %}{{ self.a() }}{% endblock %}",
    "another file": "{% include '/etc/passwd' %}",
    "another module": "{% import 'os' as os %}",
    "no number": "{{ (1e308 * 10) | int }}",
    "no format": "{{ strftime_now(5) }}",
    "steering the terminal": "{{ undefined['\x1b[2J\n'] + 1 }}",
}
"""They cannot be compiled, or fail when they are rendered."""
