"""Keeps what schemathesis generates answerable: short generations, and ids that exist half of the time."""

import os
import random

import schemathesis

KNOWN_IDS = {"model_id": os.environ["FUZZ_MODEL_ID"], "job_id": os.environ["FUZZ_JOB_ID"]}
# A valid request may ask for thousands of tokens; two of them show the same.
LIMITS = {"max_tokens": 2, "max_completion_tokens": 2, "max_output_tokens": 2, "n": 2}
# How long a reply may be, as each form names it: the first name is set where none is.
LENGTHS = {
    "/completions": ["max_tokens", "max_completion_tokens"],
    "/responses": ["max_output_tokens"],
    "/messages": ["max_tokens"],
    "/generate": ["max_tokens"],
}

# Uploads are text.
schemathesis.serializer.alias(["application/jsonl", "application/x-ndjson"], "text/plain")


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    names = next((names for end, names in LENGTHS.items() if path.endswith(end)), None)
    if names is not None and isinstance(case.body, dict):
        case.body = short(case.body, names, path)
    # A merged export writes a whole model; one that is refused shows the same.
    if path.endswith("/exports") and isinstance(case.body, dict) and str(case.body.get("format")).startswith("merged"):
        case.body = {**case.body, "format": "peft"}
    # Deleting the model would leave nothing to ask for.
    deletes_model = case.method == "DELETE" and path.endswith("{model_id}")
    if case.path_parameters and not deletes_model and random.random() < 0.5:
        case.path_parameters = {name: KNOWN_IDS.get(name, value) for name, value in case.path_parameters.items()}


def short(body, names, path):
    body = dict(body)
    # Token generation keeps its settings one level down.
    settings = body
    if path.endswith("/generate"):
        if not isinstance(body.get("sampling_params"), (dict, type(None))):
            return body
        settings = body["sampling_params"] = dict(body.get("sampling_params") or {})
    if all(settings.get(name) is None for name in names):
        settings[names[0]] = LIMITS[names[0]]
    for name, limit in LIMITS.items():
        value = settings.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > limit:
            settings[name] = limit
    return body
