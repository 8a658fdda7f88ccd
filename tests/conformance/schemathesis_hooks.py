"""Keeps what schemathesis generates answerable: short generations, and ids that exist half of the time."""

import os
import random

import schemathesis

KNOWN_IDS = {"model_id": os.environ["FUZZ_MODEL_ID"], "job_id": os.environ["FUZZ_JOB_ID"]}
# A valid request may ask for thousands of tokens; two of them show the same.
LIMITS = {"max_tokens": 2, "max_completion_tokens": 2, "n": 2}


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    if path.endswith("completions") and isinstance(case.body, dict):
        case.body = short(case.body)
    # A merged export writes a whole model; one that is refused shows the same.
    if path.endswith("/exports") and isinstance(case.body, dict) and str(case.body.get("format")).startswith("merged"):
        case.body = {**case.body, "format": "peft"}
    # Deleting the model would leave nothing to ask for.
    deletes_model = case.method == "DELETE" and path.endswith("{model_id}")
    if case.path_parameters and not deletes_model and random.random() < 0.5:
        case.path_parameters = {name: KNOWN_IDS.get(name, value) for name, value in case.path_parameters.items()}


def short(body):
    body = dict(body)
    if body.get("max_tokens") is None and body.get("max_completion_tokens") is None:
        body["max_tokens"] = LIMITS["max_tokens"]
    for name, limit in LIMITS.items():
        value = body.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > limit:
            body[name] = limit
    return body
