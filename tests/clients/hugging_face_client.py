"""Uses a hub with the unmodified huggingface_hub client. Prints one JSON object; any failure is an exception.

usage: hugging_face_client.py ENDPOINT CACHE TOKEN
"""

import json
import os
import sys

endpoint, cache, token = sys.argv[1:]
os.environ["HF_ENDPOINT"] = endpoint
os.environ["HF_HUB_CACHE"] = cache
os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"

import huggingface_hub  # noqa: E402: the variables are read at the import
from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir, snapshot_download  # noqa: E402


def refusal(call=snapshot_download, **arguments):
    try:
        call(**arguments)
    except Exception as error:  # noqa: BLE001: its class is the result
        return type(error).__name__
    return None


api = HfApi()
info = api.model_info("org/tiny", files_metadata=True)
path = snapshot_download("org/tiny", allow_patterns=["*.json", "*.jinja", "*.safetensors"])
report = {
    "version": huggingface_hub.__version__,
    "sha": info.sha,
    "files": {file.rfilename: [file.size, file.lfs.sha256 if file.lfs else file.blob_id] for file in info.siblings},
    "tree": sorted(item.path for item in api.list_repo_tree("org/tiny")),
    "path": path,
    "older": snapshot_download("org/tiny", revision="v1", allow_patterns="config.json"),
    "file": hf_hub_download("org/gated", "config.json", token=token),
    "refusals": {
        "missing": refusal(repo_id="org/missing"),
        "revision": refusal(repo_id="org/tiny", revision="v9"),
        "gated": refusal(repo_id="org/gated", cache_dir=cache + "-2"),
        "private": refusal(repo_id="org/private"),
        "token": refusal(api.model_info, repo_id="org/tiny", token="hf_wrong"),
    },
    "cache": [
        [repository.repo_id, repository.nb_files, len(repository.revisions)]
        for repository in sorted(scan_cache_dir(cache).repos, key=lambda repository: repository.repo_id)
    ],
    "warnings": [str(warning) for warning in scan_cache_dir(cache).warnings],
}
print("REPORT " + json.dumps(report))
