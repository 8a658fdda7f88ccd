"""A short life of a training client of the Tinker SDK, with a request that the server refuses. Prints one JSON object.

usage: tinker_session.py BASE_URL API_KEY
"""

import json
import sys

import numpy as np
import tinker
from tinker import types

TOKENS = [3, 9, 14, 20, 31]


def datum() -> types.Datum:
    targets = np.asarray(TOKENS[1:], dtype=np.int64)
    weights = np.ones(len(targets), dtype=np.float32)
    inputs = {"target_tokens": types.TensorData.from_numpy(targets), "weights": types.TensorData.from_numpy(weights)}
    return types.Datum(model_input=types.ModelInput.from_ints(TOKENS[:-1]), loss_fn_inputs=inputs)


def logprobs_of(output: types.ForwardBackwardOutput) -> list[float]:
    return output.loss_fn_outputs[0]["logprobs"].tolist()


def main(base_url: str, api_key: str) -> dict:
    service = tinker.ServiceClient(base_url=base_url, api_key=api_key)
    models = [model.model_name for model in service.get_server_capabilities().supported_models]
    client = service.create_lora_training_client(base_model=models[0], rank=4, seed=7).result()
    report: dict = {"models": models, "info": client.get_info().model_data.model_name}
    report["forward"] = logprobs_of(client.forward([datum()], "cross_entropy").result())
    both = client.forward_backward([datum()], "cross_entropy")
    # Posted before the result of the pass is there, as programs do it.
    step = client.optim_step(types.AdamParams(learning_rate=0.1))
    report["backward"] = logprobs_of(both.result())
    report["step"] = list((step.result().metrics or {}).keys())
    report["after"] = logprobs_of(client.forward([datum()], "cross_entropy").result())
    report["saved"] = client.save_state("first").result().path
    try:
        client.load_state(report["saved"]).result()
    except Exception as error:  # noqa: BLE001
        report["refused"] = {"kind": type(error).__name__, "status": getattr(error, "status_code", None), "told": str(error)}
    return report


if __name__ == "__main__":
    print("REPORT " + json.dumps(main(*sys.argv[1:3])), flush=True)
