"""Trains with the unmodified ART client where what samples and what trains take turns. It says whose turn is next (`TURN sampling 1`) and waits for a line before
it goes on. Prints one JSON object; any failure is an exception.

usage: art_together_client.py BASE_URL API_KEY BASE_MODEL NUM_STEPS
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
import openai  # noqa: E402
from art.serverless.backend import ServerlessBackend  # noqa: E402
from art_model import trainable_model  # noqa: E402

TOPICS = ["the sea", "a train", "the moon", "a cat", "bread", "winter", "a river", "music"]
NUM_ROLLOUTS = 4
MAX_TOKENS = 16
# How often a rollout that failed with its server is asked for again: a server that was killed takes minutes to come back.
NUM_TRIES = 300
PAUSE_SECONDS = 2


class Tally:
    """What came back, and how often a server was asked again."""

    def __init__(self) -> None:
        self.num_answers = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.num_retries = 0


async def turn_of(what: str, step: int) -> None:
    print(f"TURN {what} {step}", flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    assert line == "go\n", line


async def rollout(model: art.TrainableModel, topic: str, index: int, tally: Tally) -> art.Trajectory:
    messages = [{"role": "user", "content": f"Write about {topic}."}]
    # Every try of the client's own would hide how often a server failed.
    client = model.openai_client().with_options(max_retries=0)
    for _ in range(NUM_TRIES):
        try:
            completion = await client.chat.completions.create(
                model=model.get_inference_name(), messages=messages, max_tokens=MAX_TOKENS, logprobs=True
            )
            break
        except (openai.InternalServerError, openai.APIConnectionError):
            tally.num_retries += 1
            await asyncio.sleep(PAUSE_SECONDS)
    else:
        raise RuntimeError("the server did not come back")
    choice = completion.choices[0]
    assert completion.usage.completion_tokens == len(choice.logprobs.content) > 0
    tally.num_answers += 1
    tally.prompt_tokens += completion.usage.prompt_tokens
    tally.completion_tokens += completion.usage.completion_tokens
    # No two rewards are equal and none is the mean of four, so that every trajectory is trained.
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=index**2)


async def main(base_url: str, api_key: str, base_model: str, num_steps: str) -> dict:
    backend = ServerlessBackend(api_key=api_key, base_url=base_url)
    # It asks for events again and again; a service that was killed is back within minutes.
    backend._client.max_retries = 40
    model = trainable_model(name="learner", project="together", base_model=base_model)
    await model.register(backend)
    report: dict = {"model_id": model.id, "first_step": await model.get_step(), "steps": []}
    tally = Tally()
    for _ in range(int(num_steps)):
        step = await model.get_step()
        await turn_of("sampling", step + 1)
        before = tally.completion_tokens
        groups = await art.gather_trajectory_groups(
            [art.TrajectoryGroup(rollout(model, topic, index, tally) for index in range(NUM_ROLLOUTS)) for topic in TOPICS]
        )
        num_trajectories = sum(len(group.trajectories) for group in groups)
        await turn_of("training", step + 1)
        result = await backend.train(model, groups, learning_rate=1e-4)
        metrics = {name: value for name, value in result.metrics.items() if isinstance(value, (int, float))}
        report["steps"].append(
            {
                "step": result.step,
                "num_trajectories": num_trajectories,
                "num_sampled_tokens": tally.completion_tokens - before,
                "metrics": metrics,
            }
        )
    checkpoints = backend._client.models.checkpoints.list(model_id=model.id, order="asc")
    report["checkpoints"] = [checkpoint.step async for checkpoint in checkpoints]
    report["tally"] = vars(tally)
    return report


if __name__ == "__main__":
    print("REPORT " + json.dumps(asyncio.run(main(*sys.argv[1:5]))))
