"""A layer recorded for timing without MLX: texts, grids and arrays, joined as they are handed on."""

import json
from pathlib import Path

from tests.metal.device_record import main


def test_a_layer_is_recorded_as_it_is_launched(tmp_path: Path) -> None:
    main([str(tmp_path), "--begin", "1000", "--tokens", "29"])
    launches = json.loads((tmp_path / "launches.json").read_text())
    names = [launch["kernel"] for launch in launches]
    assert names == ["matmul", "prefill_attention", "attention_reduce", "matmul", "matmul", "matmul"]
    made = set[int]()
    for launch in launches:
        text = (tmp_path / launch["file"]).read_text()
        assert f'extern "C" __global__ void {launch["kernel"]}(' in text
        if made:
            assert made & {array["number"] for array in launch["inputs"]}, launch["kernel"]
        made |= {array["number"] for array in launch["outputs"]}
    (sequences,) = (array for array in launches[1]["inputs"] if array["name"] == "sequences")
    assert sequences["integers"][:8] == [2048, 128, 32, 29, 1, 1000, 0, 29]
