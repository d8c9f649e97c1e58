"""What is left of a chat when the process is killed in the middle of an answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.paths import Paths
from app.store.chats import ChatStore
from app.store.database import open_database

ROOT = Path(__file__).resolve().parents[2]
PER_SECOND = 100

CHILD = """
import sys
from pathlib import Path
from app.measure.paced_engine import PacedEngine
from app.paths import Paths
from app.application import make_application
from app.wiring import Desktop

application = make_application()
home, per_second = Path(sys.argv[1]), float(sys.argv[2])
desktop = Desktop(application, lambda emit: PacedEngine(emit, per_second, 100_000), Paths(home))
desktop.models.opened.connect(lambda path: desktop.conversation.send("Stream, please."))
desktop.conversation.changed.connect(lambda message: print(len(message.text), flush=True))
desktop.start(Path("paced"))
application.exec()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize(
    "seconds",
    [
        3.0,  # on a machine that is busy with other things, timers come late
        pytest.param(0.5, marks=pytest.mark.long),
    ],
)
def test_kill_9_loses_only_the_last_moment(seconds: float, tmp_path: Path) -> None:
    home = tmp_path / "home"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home), str(PER_SECOND)],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout
    shown = 0
    while shown < 4 * PER_SECOND * (seconds + 1):  # at four characters a token
        shown = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate(timeout=30)
    shown = max([shown, *(int(line) for line in rest.splitlines() if line.isdigit())])

    opened = open_database(Paths(home).chats)
    store = ChatStore(opened.connection)
    store.close_interrupted()
    question, answer = store.messages(store.chats()[0].id)
    opened.connection.close()
    assert opened.problem == ""
    assert question.text == "Stream, please."
    assert answer.status == "interrupted"
    assert shown - len(answer.text) <= 4 * PER_SECOND * seconds
    assert answer.text
