"""An environment of the library `verifiers`, trained on a running service: python reverse_words.py --steps 10 --seed 1

The library asks the service through its own openai client and scores the rollouts with its rubric; this file hands what it made to the training API.
TRAINYARD_BASE_URL and TRAINYARD_API_KEY say where the service is.
"""

import argparse
import asyncio
import os
from difflib import SequenceMatcher

import httpx
import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI

WORDS = [
    ("apple", "river", "stone"),
    ("green", "paper", "house"),
    ("music", "table", "cloud"),
    ("horse", "light", "bread"),
    ("water", "chair", "plant"),
    ("smile", "train", "glass"),
    ("night", "field", "brush"),
    ("dream", "floor", "sugar"),
]
ROLLOUTS_PER_EXAMPLE = 8


def load_environment() -> vf.Environment:
    def in_order(completion, answer, **_) -> float:
        """How alike the reply and the answer are, word by word: 0 to 1."""
        words = completion[-1]["content"].lower().replace(",", " ").replace(".", " ").split()
        return SequenceMatcher(a=words, b=answer.split(), autojunk=False).ratio()

    dataset = Dataset.from_list(
        [
            {
                "question": f"Write these words in reverse order, nothing else: {' '.join(words)}",
                "answer": " ".join(reversed(words)),
            }
            for words in WORDS
        ]
    )
    return vf.SingleTurnEnv(dataset=dataset, rubric=vf.Rubric(funcs=[in_order]))


def trajectory_groups(rounds: list[vf.types.GenerateOutputs]) -> list[dict]:
    """The states of the environment as the training API takes them: choices as they were answered, which name their records."""
    groups: dict[int, list[dict]] = {}
    for outputs in rounds:
        for example, state, reward in zip(outputs["example_id"], outputs["state"], outputs["reward"]):
            trajectory = {"messages_and_choices": history(state["trajectory"]), "reward": reward}
            groups.setdefault(example, []).append(trajectory)
    return [{"trajectories": trajectories} for trajectories in groups.values()]


def history(turns: list[vf.types.TrajectoryStep]) -> list[dict]:
    """The messages up to each reply, and the reply itself as the choice that it was."""
    items: list[dict] = []
    for turn in turns:
        items += [dict(message) for message in turn["prompt"][len(items) :]]
        items.append(turn["response"].choices[0].model_dump())
    return items


async def train(http: httpx.AsyncClient, model_id: str, groups: list[dict], learning_rate: float) -> None:
    answer = await http.post(
        "preview/training-jobs",
        json={
            "model_id": model_id,
            "trajectory_groups": groups,
            "experimental_config": {"learning_rate": learning_rate},
        },
    )
    answer.raise_for_status()
    job = answer.json()
    while job["status"] not in ("succeeded", "failed", "cancelled"):
        await asyncio.sleep(0.25)
        job = (await http.get(f"preview/training-jobs/{job['id']}")).raise_for_status().json()
    if job["status"] != "succeeded":
        raise SystemExit(f"training job {job['id']} ended as {job['status']}: {job.get('error')}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10, help="training jobs (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the sampling (1)")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="of the training jobs (5e-4)")
    parser.add_argument("--name", default="reverse-words", help="name of the model (reverse-words)")
    options = parser.parse_args()

    base_url = os.environ.get("TRAINYARD_BASE_URL", "http://127.0.0.1:8420/v1")
    api_key = os.environ["TRAINYARD_API_KEY"]
    client = AsyncOpenAI(base_url=base_url, api_key=api_key)
    headers = {"Authorization": f"Bearer {api_key}"}
    async with httpx.AsyncClient(base_url=f"{base_url}/", headers=headers, timeout=600) as http:
        base_model = await anext(model.id async for model in client.models.list() if model.parent is None)
        registered = await http.post(
            "preview/models",
            json={"project": "demo", "name": options.name, "base_model": base_model, "return_existing": True},
        )
        model = registered.raise_for_status().json()
        environment = load_environment()
        for step in range(options.steps + 1):
            # One call for each rollout of an example: the library gives all rollouts of a call the same seed.
            rounds = await asyncio.gather(
                *(
                    environment.generate(
                        environment.get_dataset(),
                        client=client,
                        model=f"{model['entity']}/{model['project']}/{model['name']}",
                        sampling_args={
                            "max_tokens": 24,
                            "temperature": 1.0,
                            "seed": options.seed * 1_000_003 + step * 1_009 + rollout,
                            # The library reads tokens of answers with log-probabilities, and those of trained models have them.
                            "extra_body": {"return_token_ids": True},
                        },
                        use_tqdm=False,
                    )
                    for rollout in range(ROLLOUTS_PER_EXAMPLE)
                )
            )
            rewards = [reward for outputs in rounds for reward in outputs["reward"]]
            print(f"step {step} reward {sum(rewards) / len(rewards):.3f}", flush=True)
            # The last round shows what the last job made of it.
            if step < options.steps:
                await train(http, model["id"], trajectory_groups(rounds), options.learning_rate)


asyncio.run(main())
