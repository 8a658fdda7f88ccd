"""Drives a running service with the unmodified ART client, as its users do. Prints one JSON object; any failure is an exception.

usage: art_client.py BASE_URL API_KEY BASE_MODEL
"""

import asyncio
import json
import os
import sys
import tempfile

# Without a key in the environment the client keeps its metrics local.
os.environ.pop("WANDB_API_KEY", None)
os.environ["WANDB_MODE"] = "disabled"
os.chdir(tempfile.mkdtemp(prefix="trainyard-art-"))

import art  # noqa: E402
from art.serverless.backend import ServerlessBackend  # noqa: E402
from art_model import trainable_model  # noqa: E402

WORDS = {"yes": 0.5, "no": 0.75, "maybe": 1.0}


async def rollout(model: art.TrainableModel, prompt: str) -> art.Trajectory:
    messages = [{"role": "user", "content": prompt}]
    client = model.openai_client()
    completion = await client.chat.completions.create(model=model.get_inference_name(), messages=messages, max_tokens=16, temperature=1.0)
    choice = completion.choices[0]
    answer = (choice.message.content or "").strip(" .'\"!\n").lower()
    # Length is scored too, so that the group always has something to teach.
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=WORDS.get(answer, 0.0) - len(answer) / 1000)


async def main(base_url: str, api_key: str, base_model: str) -> dict:
    backend = ServerlessBackend(api_key=api_key, base_url=base_url)
    model = trainable_model(name="art-client", project="conformance", base_model=base_model)
    await model.register(backend)
    await model.register(backend)  # notebooks do this again and again
    report: dict = {"entity": model.entity, "name": model.get_inference_name(), "steps": [], "gradient_steps": [], "metrics": []}
    report["first_step"] = await model.get_step()

    for _ in range(2):
        groups = await art.gather_trajectory_groups(
            (art.TrajectoryGroup(rollout(model, prompt) for _ in range(8)) for prompt in ["respond with yes, no or maybe", "say 'maybe'"]),
        )
        choice = groups[0].trajectories[0].messages_and_choices[-1]
        report["num_logprobs"] = len(choice.logprobs.content)
        report["first_token"] = choice.logprobs.content[0].token
        result = await backend.train(model, groups, learning_rate=1e-4)
        report["steps"].append(result.step)
        report["metrics"].append({key: value for key, value in result.metrics.items() if isinstance(value, (int, float))})
        report["artifact_name"] = result.artifact_name

    validation = await art.gather_trajectory_groups([art.TrajectoryGroup(rollout(model, "respond with yes, no or maybe") for _ in range(4))])
    await model.log(validation, split="val")

    client = backend._client
    report["checkpoints"] = [checkpoint.step async for checkpoint in client.models.checkpoints.list(model_id=model.id, limit=1, order="asc")]
    # The route that clients up to 0.5.5 use for their logs.
    await client.models.log(model_id=model.id, trajectory_groups=validation, split="val")
    latest = [checkpoint async for checkpoint in client.models.checkpoints.list(model_id=model.id, limit=1, order="desc")][0]
    report["val_reward"] = latest.metrics.get("val/reward")

    old = model.openai_client()
    answer = await old.chat.completions.create(model=model.get_inference_name(step=1), messages=[{"role": "user", "content": "hi"}], max_tokens=4)
    report["old_step_model"] = answer.model

    await client.models.checkpoints.delete(model_id=model.id, steps=[1, 77])
    report["after_delete"] = [checkpoint.step async for checkpoint in client.models.checkpoints.list(model_id=model.id, order="asc")]
    await client.models.delete(model_id=model.id)
    try:
        await old.chat.completions.create(model=model.get_inference_name(), messages=[{"role": "user", "content": "hi"}], max_tokens=4)
    except Exception as error:  # noqa: BLE001
        report["after_model_delete"] = type(error).__name__
    return report


if __name__ == "__main__":
    print("REPORT " + json.dumps(asyncio.run(main(*sys.argv[1:4]))))
