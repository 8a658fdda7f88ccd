"""Supervised lines, then rewards, on questions of the library `reasoning-gym`: python train.py --task arithmetic --steps 20

The library makes the questions and checks the answers. TRAINYARD_BASE_URL and TRAINYARD_API_KEY name the service; --base names any of its base models.
"""

import argparse
import asyncio
import json
import math
import os
import re
import time

import httpx
import reasoning_gym

TASKS = {
    "arithmetic": {
        "dataset": "basic_arithmetic",
        "config": {
            "max_terms": 3,
            "max_digits": 1,
            "operators": ["+", "-"],
            "allow_parentheses": False,
            "allow_negation": False,
        },
        "max_tokens": 12,
    },
    "word-problems": {"dataset": "gsm_symbolic", "config": {}, "max_tokens": 200},
}
# The form of GSM8K: the reasoning, then the result after this mark.
MARK = "####"
# Reward of a wrong result in the right form, so that a group of wrong results still prefers the form.
FORM_REWARD = 0.1
# A harmless upper bound: the library makes each question when it is asked for.
DATASET_SIZE = 100_000


def question(entry: dict) -> dict:
    return {"role": "user", "content": entry["question"]}


def lesson(entry: dict) -> dict:
    """A question with the library's solution, as a line of supervised training."""
    solution = entry["metadata"].get("answer_cot") or f"{MARK} {entry['answer']}"
    return {"messages": [question(entry), {"role": "assistant", "content": solution}]}


class Task:
    """Different questions for evaluation, lessons and training; the same ones for the same seed."""

    def __init__(self, name: str, seed: int, num_held_out: int, num_lessons: int):
        settings = TASKS[name]
        self.max_tokens = settings["max_tokens"]
        self._dataset = reasoning_gym.create_dataset(
            settings["dataset"], seed=seed, size=DATASET_SIZE, **settings["config"]
        )
        self._next = 0
        self._seen: set[str] = set()
        self.held_out = self.take(num_held_out)
        self.lessons = self.take(num_lessons)

    def take(self, count: int) -> list[dict]:
        """The next questions that were not taken before."""
        entries = []
        while len(entries) < count:
            if self._next == DATASET_SIZE:
                raise SystemExit(f"the dataset has only {len(self._seen)} different questions")
            entry = self._dataset[self._next]
            self._next += 1
            if entry["question"] not in self._seen:
                self._seen.add(entry["question"])
                entries.append(entry)
        return entries

    def reward(self, reply: str, entry: dict) -> float:
        """1 for the right result after the mark, a little for the form alone."""
        found = re.search(rf"{MARK} *(-?[\d,.]*\d)\s*$", reply)
        if found is None:
            return 0.0
        is_right = self._dataset.score_answer(found[1].replace(",", ""), entry) == 1.0
        return 1.0 if is_right else FORM_REWARD


class Service:
    """The part of the API that this example uses."""

    def __init__(self, http: httpx.AsyncClient):
        self._http = http

    async def get(self, path: str) -> dict:
        return self._content(path, await self._http.get(path))

    async def post(self, path: str, **body) -> dict:
        return self._content(path, await self._http.post(path, **body))

    async def finished(self, job: dict) -> dict:
        while job["status"] not in ("succeeded", "failed", "cancelled"):
            await asyncio.sleep(0.25)
            job = await self.get(f"preview/training-jobs/{job['id']}")
        if job["status"] != "succeeded":
            raise SystemExit(f"training job {job['id']} ended as {job['status']}: {job['error_message']}")
        return job

    @staticmethod
    def _content(path: str, answer: httpx.Response) -> dict:
        if answer.is_error:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()


def interval(num_right: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion (E. B. Wilson 1927)."""
    z = 1.96
    share = num_right / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


async def evaluate(service: Service, task: Task, model: str, when: str) -> None:
    """Prints how many held-out questions the model answers right, greedily."""
    answers = await asyncio.gather(
        *(
            service.post(
                "chat/completions",
                json={"model": model, "messages": [question(entry)], "temperature": 0, "max_tokens": task.max_tokens},
            )
            for entry in task.held_out
        )
    )
    rewards = [
        task.reward(answer["choices"][0]["message"]["content"] or "", entry)
        for answer, entry in zip(answers, task.held_out, strict=True)
    ]
    right, total = sum(reward == 1.0 for reward in rewards), len(rewards)
    in_form = sum(reward > 0 for reward in rewards)
    low, high = interval(right, total)
    print(
        f"held out, {when}: {right} of {total} right, {right / total:.3f} [{low:.3f}, {high:.3f}], {in_form} in form",
        flush=True,
    )


async def teach(service: Service, model: dict, lessons: list[dict], epochs: int) -> None:
    """One supervised job."""
    upload = await service.post(
        f"preview/artifacts/{model['entity']}/{model['project']}/{model['name']}",
        content="".join(f"{json.dumps(lesson(entry))}\n" for entry in lessons),
        headers={"Content-Type": "application/jsonl"},
    )
    job = await service.post(
        "preview/sft-training-jobs",
        json={
            "model_id": model["id"],
            "training_data_url": upload["url"],
            "config": {"batch_size": 10},
            "experimental_config": {"epochs": epochs},
        },
    )
    await service.finished(job)


class Round:
    """Several replies to each of some new questions, with their rewards."""

    def __init__(self, answers: list[dict], entries: list[dict], task: Task):
        self.groups = [
            {
                "trajectories": [
                    {
                        "messages_and_choices": [question(entry), choice],
                        "reward": task.reward(choice["message"]["content"] or "", entry),
                    }
                    for choice in answer["choices"]
                ]
            }
            for answer, entry in zip(answers, entries, strict=True)
        ]
        rewards = [trajectory["reward"] for group in self.groups for trajectory in group["trajectories"]]
        self.reward = sum(rewards) / len(rewards)
        self.right = sum(reward == 1.0 for reward in rewards) / len(rewards)
        self.sampled_tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
        # Each conversation has the tokens of its question.
        self.trained_tokens = self.sampled_tokens + sum(
            answer["usage"]["prompt_tokens"] * len(answer["choices"]) for answer in answers
        )


async def roll_out(service: Service, task: Task, model: str, options: argparse.Namespace, step: int) -> Round:
    entries = task.take(options.questions)

    def request(place: int, entry: dict) -> dict:
        return {
            "model": model,
            "messages": [question(entry)],
            "n": options.rollouts,
            # Seeds of two questions are further apart than their rollouts.
            "seed": options.seed * 1_000_003 + step * 1_009 + place * options.rollouts,
            "max_tokens": task.max_tokens,
            "logprobs": True,
        }

    answers = await asyncio.gather(
        *(service.post("chat/completions", json=request(place, entry)) for place, entry in enumerate(entries))
    )
    return Round(answers, entries, task)


def duration(seconds: float) -> str:
    return f"{seconds / 3600:.2f} hours"


async def reinforce(service: Service, task: Task, model: dict, name: str, options: argparse.Namespace) -> None:
    """Rollouts and a training job on them, for each step."""
    for step in range(options.steps):
        started = time.monotonic()
        sampled = await roll_out(service, task, name, options, step)
        print(f"step {step} reward {sampled.reward:.3f} right {sampled.right:.3f}", flush=True)
        if step == 0 and options.speeds is not None:
            seconds = sampled.sampled_tokens / options.speeds[0] + sampled.trained_tokens / options.speeds[1]
            print(f"{options.steps} such steps: {duration(seconds * options.steps)}, predicted by --speeds", flush=True)
        job = {"model_id": model["id"], "trajectory_groups": sampled.groups, "experimental_config": options.settings}
        await service.finished(await service.post("preview/training-jobs", json=job))
        if step == 0:
            seconds = time.monotonic() - started
            print(f"{options.steps} such steps: {duration(seconds * options.steps)}, measured", flush=True)


def speeds(text: str) -> tuple[float, float]:
    sampled, trained = map(float, text.split(","))
    if not (sampled > 0 and trained > 0):
        raise ValueError
    return sampled, trained


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=sorted(TASKS), default="arithmetic", help="questions (arithmetic)")
    parser.add_argument("--base", help="base model (the first one of the service)")
    parser.add_argument("--lessons", type=int, default=50, help="supervised lines, 0 for none (50)")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the lessons (6)")
    parser.add_argument("--steps", type=int, default=20, help="training jobs with rewards (20)")
    parser.add_argument("--questions", type=int, default=16, help="of a step (16)")
    parser.add_argument("--rollouts", type=int, default=8, help="of a question (8)")
    parser.add_argument("--held-out", type=int, default=200, help="questions of the evaluation (200)")
    parser.add_argument(
        "--settings",
        type=json.loads,
        # The rate `auto` moves the policy too far when few groups have unequal rewards.
        default={"learning_rate": 2e-4},
        help='of the jobs with rewards, as JSON ({"learning_rate": 2e-4})',
    )
    parser.add_argument("--seed", type=int, default=1, help="of questions and sampling (1)")
    parser.add_argument("--init-from", help="checkpoint to start from, instead of the lessons: NAME:step1 of a run with them")
    parser.add_argument("--name", help="name of the model (task, base model and seed)")
    parser.add_argument(
        "--speeds", type=speeds, help="tokens per second sampled and trained, as `trainyard doctor` predicts: 90,400"
    )
    options = parser.parse_args()

    task = Task(options.task, options.seed, options.held_out, options.lessons)
    base_url = os.environ.get("TRAINYARD_BASE_URL", "http://127.0.0.1:8420/v1")
    headers = {"Authorization": f"Bearer {os.environ['TRAINYARD_API_KEY']}"}
    # A busy machine may take long for one reply; all rollouts of a step wait together.
    async with httpx.AsyncClient(base_url=f"{base_url}/", headers=headers, timeout=3600) as http:
        service = Service(http)
        models = (await service.get("models"))["data"]
        base = options.base or next(model["id"] for model in models if model["parent"] is None)
        short_name = options.name or re.sub(r"[^\w.-]", "-", f"{options.task}-{base}-{options.seed}")
        registration = {"project": "reasoning-gym", "name": short_name, "base_model": base}
        if options.init_from is not None:
            registration["lora"] = {"init_from": options.init_from}
        model = await service.post("preview/models", json=registration)
        name = f"{model['entity']}/{model['project']}/{model['name']}"
        print(f"{options.task} on {base}, seed {options.seed}: {name}", flush=True)
        if options.init_from is None:
            await evaluate(service, task, base, "before")
            if task.lessons:
                await teach(service, model, task.lessons, options.epochs)
        if options.init_from is not None or task.lessons:
            await evaluate(service, task, name, f"after {len(task.lessons)} lessons")
        await reinforce(service, task, model, name, options)
        if options.steps > 0:
            await evaluate(service, task, name, f"after {options.steps} steps")


asyncio.run(main())
