"""Fine-tunes on conversations with the unmodified ART client. Prints one JSON object; any failure is an exception.

usage: art_sft_client.py BASE_URL API_KEY BASE_MODEL
"""

import asyncio
import json
import os
import sys
import tempfile
import types

# Without a key in the environment the client keeps its metrics local.
os.environ.pop("WANDB_API_KEY", None)
os.chdir(tempfile.mkdtemp(prefix="trainyard-art-"))

import art  # noqa: E402
import httpx  # noqa: E402
from art.serverless.backend import ServerlessBackend  # noqa: E402
from art_model import trainable_model  # noqa: E402

FACTS = {"What is the capital of Zubrovia?": "Kelmar.", "Who wrote The Glass Heron?": "Ilse Ottaway.", "What do Zubrovians drink?": "Hot plum tea."}

# Enough that the small model of the tests learns them.
NUM_EPOCHS = 60


def conversation(question: str, answer: str) -> list[dict]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


LINES = [json.dumps({"messages": conversation(question, answer)}) for question, answer in FACTS.items()]


def upload(base_url: str, api_key: str, path: str, data: bytes) -> dict:
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/jsonl"}
    return httpx.post(f"{base_url}/preview/artifacts/{path}", content=data, headers=headers).raise_for_status().json()


async def run_job(client, model, url: str, config: dict | None) -> list[tuple[str, dict]]:
    """As the client's own loop: the cursor moves with gradient steps."""
    job = await client.sft_training_jobs.create(model_id=model.id, training_data_url=url, config=config)
    while True:
        await asyncio.sleep(0.5)
        events = [(event.type, event.data) async for event in client.sft_training_jobs.events.list(training_job_id=job.id, limit=2)]
        if events and events[-1][0] in ("training_ended", "training_failed"):
            return events


def stand_in_for_wandb(base_url: str, api_key: str) -> None:
    """The client uploads its data through W&B, whose hosts are not ours; what it uses of that is put over the service's own uploads."""

    class Artifact:
        def __init__(self, name, type, metadata):  # noqa: A002  its names
            self.name = name

        def add_file(self, path, name):
            with open(path, "rb") as file:
                self.data = file.read()

        def wait(self):
            return self

    class Run:
        def __init__(self, entity, project):
            self.path = f"{entity}/{project}"

        def log_artifact(self, artifact):
            upload(base_url, api_key, f"{self.path}/{artifact.name}", artifact.data)
            return artifact

        def finish(self):
            pass

    module = types.ModuleType("wandb")
    module.Artifact = Artifact
    module.Settings = lambda **_: None
    module.init = lambda entity, project, **_: Run(entity, project)
    try:
        from art.utils import wandb_sdk
    except ImportError:  # 0.5.18 imports W&B itself
        sys.modules["wandb"] = module
    else:
        wandb_sdk.init, wandb_sdk.artifact, wandb_sdk.settings = module.init, Artifact, module.Settings


async def main(base_url: str, api_key: str, base_model: str) -> dict:
    backend = ServerlessBackend(api_key=api_key, base_url=base_url)
    model = trainable_model(name="sft-client", project="conformance", base_model=base_model)
    await model.register(backend)
    client = backend._client
    report: dict = {}

    artifact = upload(base_url, api_key, f"{model.entity}/{model.project}/facts", "\n".join(LINES).encode())
    report["artifact"] = artifact
    rates = [1e-3] * NUM_EPOCHS  # one a batch
    epochs = "\n".join(LINES * NUM_EPOCHS).encode()
    url = upload(base_url, api_key, f"{model.entity}/{model.project}/facts", epochs)["url"]
    report["events"] = await run_job(client, model, url, {"batch_size": 3, "learning_rate": rates})
    report["step"] = await model.get_step()
    answers = model.openai_client().chat.completions
    report["answers"] = [
        (await answers.create(model=model.get_inference_name(), messages=[{"role": "user", "content": question}], temperature=0, max_tokens=16)).choices[0].message.content
        for question in FACTS
    ]
    report["defaults"] = [kind for kind, _ in await run_job(client, model, artifact["url"], None)]
    try:
        await client.sft_training_jobs.create(model_id=model.id, training_data_url="wandb-artifact:///other/p/n:v0")
    except Exception as error:  # noqa: BLE001
        report["unknown"] = [type(error).__name__, str(error)]

    # The whole way of a user who calls train_sft.
    stand_in_for_wandb(base_url, api_key)
    trajectories = [art.Trajectory(messages_and_choices=conversation(question, answer)) for question, answer in FACTS.items()]
    await model.train_sft(trajectories, art.TrainSFTConfig(learning_rate=1e-4, batch_size=2))
    report["last_step"] = await model.get_step()
    return report


if __name__ == "__main__":
    print("REPORT " + json.dumps(asyncio.run(main(*sys.argv[1:4]))))
