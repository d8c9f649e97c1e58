"""Chat templates: the text that transformers renders, refusals in one line, no way out of the sandbox."""

import re
import time
from datetime import datetime

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from engine.commands import Message
from engine.errors import InvalidRequest, TokenizerError
from engine.tokenizer import ChatTemplate

NAMED = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

# Written for these tests, each in the manner of a model family.
LLAMA2 = """
{%- if messages[0]['role'] == 'system' %}
    {%- set system = '<<SYS>>\n' ~ messages[0]['content'] ~ '\n<</SYS>>\n\n' %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system = '' %}
    {%- set turns = messages %}
{%- endif %}
{%- for turn in turns %}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('turns of user and assistant must take turns') }}
    {%- endif %}
    {%- if turn['role'] == 'user' %}
        {{- bos_token + '[INST] ' + (system if loop.first else '') + turn['content'].strip() + ' [/INST]' }}
    {%- else %}
        {{- ' ' + turn['content'] | trim + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}
"""

LLAMA3 = """
{{- bos_token }}
{%- if not date is defined %}{% set date = strftime_now('%d %b %Y') %}{% endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\nToday: ' + date + '\n' }}
{%- for m in messages if m.role == 'system' %}{{ m.content | trim }}{% endfor %}
{{- '<|eot_id|>' }}
{%- if tools is not none %}{{ tools | tojson(indent=4) }}{% endif %}
{%- for m in messages %}
    {%- if m.role == 'system' %}{% continue %}{% endif %}
    {{- '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\n\n' ~ (m.content | trim) ~ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

CHATML = """
{%- if tools %}{{ 'never' }}{% endif %}
{%- set ns = namespace(last=-1, seen=[]) %}
{%- for m in messages[::-1] %}
    {%- if m.role == 'user' and ns.last < 0 %}
        {%- set ns.last = (messages | length - 1) - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set text = m.content %}
    {%- if m.role == 'assistant' and '</think>' in text %}
        {%- set text = text.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\n' }}
    {%- generation %}{% set text = text ~ '.' %}{{ text }}{{ loop.index }}{% endgeneration %}
    {{- text | length }}
    {{- '<|im_end|>\n' }}
    {%- if loop.index0 == ns.last and not loop.last %}{{ '!' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""

MISTRAL = """
{%- macro show(m, final=false) -%}
    {%- if m.role == 'user' %}[INST] {{ m.content }}[/INST]
    {%- elif m.role == 'assistant' %} {{ m['content'] }}{{ eos_token }}
    {%- else %}{{ raise_exception('unknown role ' ~ m.role) }}
    {%- endif %}
{%- endmacro -%}
{{ bos_token }}{% for m in messages %}{{ show(m, final=loop.last) }}{% endfor %}
"""

ZEPHYR = """{% for m in messages %}
{% if m['role'] in ['user', 'system', 'assistant'] %}
{{ '<|%s|>' % m['role'] }}
{{ m['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

ODDS = """{{ messages | tojson }}|{{ messages | map(attribute='role') | join(',') }}|
{%- for role, group in messages | groupby('role') %}{{ role }}={{ group | length }};{% endfor %}
{%- for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}
{{ loop.revindex }}/{{ loop.length }} {{ loop.last }} {{ loop.nextitem is defined }} {% endfor %}
{{- '%05.1f' | format(3.14159) }} {{ 'ab' * 3 }} {{ 2 ** 8 }} {{ 7 // 2 }} {{ 'x'.center(5, '-') }}
{{- dict(a=1, b='<&>') | tojson(sort_keys=true) }} {{ {'é': '</s>'} | tojson }} {{ none_such is defined }}
{% set text %}block {{ messages[0].content }}{% endset %}{{ text | upper }}
{%- for item in [1, [2, [3]]] recursive %}{{ loop(item) if item is iterable else item }}{% endfor %}
{%- for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}{{ unk_token }}{{ documents }}
"""

USER = Message("user", "Hi there!  ")
CHATS = {
    "one": [USER],
    "system": [Message("system", " Be brief. "), USER],
    "many": [
        USER,
        Message("assistant", "<think>\nhm\n</think>\n\nYes? ☕"),
        Message("user", "你好\n<b>&</b>"),
    ],
}


@pytest.mark.parametrize("generate", [True, False])
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize(
    "source",
    [LLAMA2, LLAMA3, CHATML, MISTRAL, ZEPHYR, ODDS],
    ids=["llama2", "llama3", "chatml", "mistral", "zephyr", "odds"],
)
def test_renders_as_transformers_does(source: str, chat: str, generate: bool) -> None:
    if source is MISTRAL and chat == "system":
        source = source.replace("{{ raise_exception('unknown role ' ~ m.role) }}", "({{ m.content }})")
    messages = CHATS[chat]
    plain = [{"role": m.role, "content": m.content} for m in messages]
    (expected,), _ = render_jinja_template(
        [plain], chat_template=source, add_generation_prompt=generate, **NAMED
    )
    assert ChatTemplate(source, NAMED).render(messages, add_generation_prompt=generate) == expected


def test_the_clock_is_the_one_given() -> None:
    template = ChatTemplate("{{ strftime_now('%Y-%m-%d %H') }}", {}, now=lambda: datetime(2024, 2, 29, 13))
    assert template.render([USER]) == "2024-02-29 13"


def test_rendering_again_starts_afresh() -> None:
    template = ChatTemplate(
        "{% set n = namespace(i=0) %}{% set n.i = n.i + 1 %}{{ n.i }}{{ messages | length }}", {}
    )
    assert [template.render([USER]), template.render([USER, USER])] == ["11", "12"]


def test_a_refusal_is_the_conversations_fault_and_in_the_templates_words() -> None:
    template = ChatTemplate(LLAMA2, NAMED)
    with pytest.raises(InvalidRequest, match="turns of user and assistant must take turns") as caught:
        template.render([Message("assistant", "first")])
    assert "\n" not in str(caught.value)
    assert template.render([USER]) == "<s>[INST] Hi there! [/INST]"


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="empty"):
        ChatTemplate(CHATML, NAMED).render([])


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ 'a' ", "{% for x in y %}", "{{ x | no_such_filter }}", "{% nope %}"]
)
def test_a_broken_template_does_not_load(source: str) -> None:
    with pytest.raises(
        TokenizerError, match=r"^model/chat_template\.jinja: the chat template cannot be read: "
    ) as caught:
        ChatTemplate(source, {}, origin="model/chat_template.jinja")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "{{ missing.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages[99].content }}",
        "{{ messages[0]['content'] + 1 }}",
        "{{ none | length }}",
        "{% include 'other' %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ messages.append(1) }}",
    ],
)
def test_a_failing_template_is_one_clear_line(source: str) -> None:
    template = ChatTemplate(source, NAMED, origin="model/tokenizer_config.json")
    with pytest.raises(TokenizerError, match=r"^model/tokenizer_config\.json: the chat template ") as caught:
        template.render([USER])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__closure__ }}",
        "{{ dict.__base__ }}",
        "{{ dict.mro() }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ namespace(__class__=1) }}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ self.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ '%s' | attr('__class__') }}{{ ('' | attr('__class__')).x }}",
        "{{ messages | map(attribute='__class__') | list }}",
        "{{ (messages | map(attribute='__class__') | first).x }}",
        "{{ loop.__class__ }}",
        "{{ [].append.__self__.__class__.x }}",
        "{{ joiner.__init__.__globals__ }}",
        "{{ lipsum.__globals__ }}",
    ],
)
def test_there_is_no_way_out_of_the_sandbox(source: str) -> None:
    template = ChatTemplate(source, NAMED)
    try:
        text = template.render([USER])
    except TokenizerError:
        return
    assert not re.search("class|module|function|built-in|object at", text)


MANY = "{% for i in range(90000) %}"
GROW = "{% set n = namespace(s=START) %}{% for i in range(90) %}{% set n.s = STEP %}{% endfor %}"


def grow(start: str, step: str) -> str:
    return GROW.replace("START", start).replace("STEP", step)


BOMBS = {
    "empty loops": "{% set x = range(90000) | list %}" + 3 * "{% for a in x %}" + 3 * "{% endfor %}",
    "loops that call": MANY + MANY + "{% endfor %}{% endfor %}",
    "output": MANY + "{{ 'x' * 1000 }}{% endfor %}",
    "constant output": MANY + "x" * 1000 + "{% endfor %}",
    "repeated text": "{{ 'x' * 10 ** 10 }}",
    "repeated list": "{{ ([0] * 10 ** 10) | length }}",
    "power": "{{ 10 ** 10 ** 10 }}",
    "padding": "{{ 'x'.center(10 ** 10) }}",
    "padding filter": "{{ 'x' | center(9999999999) }}",
    "format": "{{ '%9999999999d' % 1 }}",
    "format filter": "{{ '%9999999999d' | format(1) }}",
    "format method": "{{ '{:9999999999}'.format(1) }}",
    "format with a width given": "{{ '{:{w}}'.format(1, w=9999999999) }}",
    "doubling with ~": grow("'x'", "n.s ~ n.s"),
    "doubling with +": grow("'x'", "n.s + n.s"),
    "doubling a list": grow("[1]", "n.s + n.s"),
    "doubling a number": grow("2", "n.s * n.s"),
    "nesting": grow("[1]", "[n.s, n.s]") + "{{ n.s }}",
    "replace": "{{ ('a' * 1000000).replace('a', 'b' * 1000000) | length }}",
    "replace filter": "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) | length }}",
    "join": "{{ (range(90000) | list) | join('x' * 1000000) | length }}",
    "join method": "{{ ('x' * 1000000).join(range(90000) | map('string') | list) | length }}",
    "join of a stream": "{{ range(90000) | map('string') | join('x' * 1000000) | length }}",
    "stream": "{{ range(90000) | map('center', 1000000) | join | length }}",
    "list of a stream": "{{ range(90000) | map('center', 1000000) | list | length }}",
    "width as an argument": "{{ '%*d' % (10 ** 9, 1) }}",
    "JSON of a nest": grow("[1]", "[n.s, n.s]") + "{{ n.s | tojson }}",
    "comparing nests": grow("[1]", "[n.s, n.s]") + "{{ n.s == n.s | list }}",
    "nest of calls": "{% macro m(n,x) %}{% if n %}{{ m(n-1,[x,x]) }}{% endif %}{% endmacro %}{{ m(90,1) }}",
    "indent": "{{ ('\n' * 1000000) | indent('x' * 1000000, blank=true) | length }}",
    "block": "{% set s = 'x' * 1000000 %}{% set b %}" + MANY + "{{ s }}{% endfor %}{% endset %}",
    "macro": "{% macro m() %}" + MANY + "x" * 999 + "{% endfor %}{% endmacro %}{{ m() | length }}",
    "recursion": "{% macro m(n) %}{% if n %}{{ m(n - 1) ~ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_put_out_soon(name: str) -> None:
    template = ChatTemplate(BOMBS[name], NAMED, max_seconds=0.3)
    began = time.monotonic()
    with pytest.raises(
        TokenizerError, match=r"takes too long to render|makes too much text|fails: RecursionError"
    ):
        template.render([USER])
    assert time.monotonic() - began < 20  # one that goes off takes minutes, or all memory


def test_a_long_conversation_is_no_bomb() -> None:
    messages = [Message("user" if i % 2 == 0 else "assistant", "word " * 2000) for i in range(200)]
    text = ChatTemplate(LLAMA2, NAMED).render(messages)
    assert len(text) > 1_900_000
