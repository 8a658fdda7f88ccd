"""Drives two running services with the unmodified openai client, as its users do. Prints one JSON object; any failure is an exception.

usage: openai_client.py SCRIPTED_URL SCRIPTED_KEY SCRIPTED_MODEL REAL_URL REAL_KEY REAL_MODEL

The scripted one plays the part that packages/server/src/testing/scripted-main.ts describes: it calls tools, reasons and writes JSON.
"""

import asyncio
import json
import sys
from typing import Literal, Optional

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel, Field


class Report(BaseModel):
    city: str
    degrees: int


class Ship(BaseModel):
    kind: Literal["ferry", "tanker", "tug"]
    name: str = Field(min_length=2, max_length=12)
    year: int = Field(ge=1900, le=2025)
    captain: Optional[str] = Field(max_length=10)
    ports: list[Literal["Rome", "Oslo"]] = Field(min_length=1, max_length=3)


class weather(BaseModel):
    """Tells the weather of a city."""

    city: str


TOOLS = [openai.pydantic_function_tool(weather)]


def run_tools(client: OpenAI, model: str) -> dict:
    """Asks, answers the calls, asks again, until there are none."""
    messages: list = [{"role": "user", "content": "What is the weather in Zürich and Rome?"}]
    asked, roles, reasoning = [], [], []
    for _ in range(5):
        message = client.chat.completions.parse(model=model, messages=messages, tools=TOOLS).choices[0].message
        roles.append("calls" if message.tool_calls else "answers")
        reasoning.append(message.reasoning)
        if not message.tool_calls:
            return {"answer": message.content, "asked": asked, "turns": roles, "reasoning": reasoning}
        messages.append(message.model_dump())
        for call in message.tool_calls:
            asked.append(call.function.parsed_arguments.city)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"sun in {asked[-1]}"})
    raise AssertionError("the model never answered")


def stream_calls(client: OpenAI, model: str) -> dict:
    """The stream helper, with its events."""
    events, arguments = [], []
    request = {"model": model, "messages": [{"role": "user", "content": "The weather in Zürich and Rome?"}], "tools": TOOLS}
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        for event in stream:
            if not events or events[-1] != event.type:
                events.append(event.type)
            if event.type == "tool_calls.function.arguments.done":
                arguments.append(event.parsed_arguments.city)
        final = stream.get_final_completion()
    return {
        "events": [event for event in events if event != "chunk"],
        "arguments": arguments,
        "finish_reason": final.choices[0].finish_reason,
        "content": final.choices[0].message.content,
        "total": final.usage.total_tokens - final.usage.prompt_tokens - final.usage.completion_tokens,
        "reasoning_tokens": final.usage.completion_tokens_details.reasoning_tokens,
    }


def stream_reasoning(client: OpenAI, model: str) -> dict:
    told = {"reasoning": "", "content": ""}
    for chunk in client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi."}], stream=True):
        delta = chunk.choices[0].delta
        told["reasoning"] += getattr(delta, "reasoning", None) or ""
        told["content"] += delta.content or ""
    return told


def parse(client: OpenAI, model: str) -> dict:
    request = {"model": model, "messages": [{"role": "user", "content": "As json."}], "response_format": Report}
    message = client.chat.completions.parse(**request).choices[0].message
    with client.chat.completions.stream(**request) as stream:
        streamed = stream.get_final_completion().choices[0].message
    return {"parsed": message.parsed.model_dump(), "streamed": streamed.parsed.model_dump(), "reasoning": message.reasoning}


def abort(client: OpenAI, model: str) -> int:
    """Leaves an endless stream behind four chunks."""
    num_chunks = 0
    with client.chat.completions.create(model=model, messages=[{"role": "user", "content": "An essay."}], stream=True) as stream:
        for _ in stream:
            num_chunks += 1
            if num_chunks == 4:
                break
    return num_chunks


async def cancel(url: str, key: str, model: str) -> str:
    """Cancels the task that waits for a whole answer."""
    async with AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:
        task = asyncio.create_task(client.chat.completions.create(model=model, messages=[{"role": "user", "content": "An essay."}]))
        await asyncio.sleep(0.1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
    return "answered"


def errors(client: OpenAI, model: str) -> list:
    hello = [{"role": "user", "content": "hi"}]
    told = []
    for changes in [{"model": "nobody"}, {"top_p": 2}, {"n": 2, "temperature": 0}, {"messages": [{"role": "user", "content": "x" * 9000}]}]:
        try:
            client.chat.completions.create(**{"model": model, "messages": hello, **changes})
        except openai.APIStatusError as error:
            told.append([type(error).__name__, error.status_code, error.code, error.param, error.body["message"] in error.message])
    try:
        client.with_options(api_key="wrong").models.list()
    except openai.APIStatusError as error:
        told.append([type(error).__name__, error.status_code, error.code, error.param, error.body["message"] in error.message])
    return told


def sample(client: OpenAI, model: str) -> dict:
    """The real model: log-probabilities, choices, usage of streams, forced tools, a schema."""
    request = {"model": model, "messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 16, "seed": 5}
    whole = client.chat.completions.create(**request, n=3, logprobs=True, top_logprobs=2)
    greedy = {**request, "temperature": 0}
    whole_greedy = client.chat.completions.create(**greedy)
    text, finish_reason, usage = "", None, None
    for chunk in client.chat.completions.create(**greedy, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish_reason = choice.finish_reason or finish_reason
    finishes = [
        choice.index
        for chunk in client.chat.completions.create(**request, n=3, stream=True)
        for choice in chunk.choices
        if choice.finish_reason
    ]
    entries = [entry for choice in whole.choices for entry in choice.logprobs.content]
    forced = client.chat.completions.parse(
        model=model, messages=[{"role": "user", "content": "Rome?"}], tools=TOOLS, tool_choice="required", max_tokens=200, seed=2, temperature=1
    )
    ship = client.chat.completions.parse(
        model=model, messages=[{"role": "user", "content": "Describe a ship."}], response_format=Ship, max_tokens=200, seed=2, temperature=1
    )
    return {
        "is_streamed_alike": text == whole_greedy.choices[0].message.content,
        "ends_alike": finish_reason == whole_greedy.choices[0].finish_reason,
        "usage_difference": usage.completion_tokens - whole_greedy.usage.completion_tokens,
        "finished_choices": sorted(finishes),
        "num_entries_missing": whole.usage.completion_tokens - len(entries),
        "num_tops": sorted({len(entry.top_logprobs) for entry in entries}),
        "largest_logprob": max(entry.logprob for entry in entries),
        "num_different": len({choice.message.content for choice in whole.choices}),
        "called": [call.function.name for call in forced.choices[0].message.tool_calls],
        "arguments": [type(call.function.parsed_arguments.city).__name__ for call in forced.choices[0].message.tool_calls],
        "ship": ship.choices[0].message.parsed.model_dump(),
    }


def limits(url: str, key: str, model: str) -> dict:
    """A key with a limit of requests: the error of a client that does not wait, and one that waits as it is told."""
    ask = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    impatient = OpenAI(base_url=url, api_key=key, max_retries=0, timeout=300)
    report = {"refused": None, "went_through": False}
    for _ in range(1000):
        try:
            impatient.chat.completions.create(**ask)
        except openai.RateLimitError as error:
            headers = error.response.headers
            report["refused"] = [error.status_code, error.code, error.type, headers["x-ratelimit-remaining-requests"]]
            report["wait_ms"] = int(headers["retry-after-ms"])
            break
    patient = OpenAI(base_url=url, api_key=key, max_retries=5, timeout=300)
    report["went_through"] = len(patient.chat.completions.create(**ask).choices) == 1
    return report


def main(scripted: tuple, real: tuple, limited_key: str) -> dict:
    url, key, model = scripted
    client = OpenAI(base_url=url, api_key=key, max_retries=0)
    report = {"openai": openai.__version__}
    for part in [run_tools, stream_calls, stream_reasoning, parse, errors, abort]:
        report[part.__name__] = part(client, model)
    report["cancel"] = asyncio.run(cancel(*scripted))
    report["sample"] = sample(OpenAI(base_url=real[0], api_key=real[1], max_retries=0, timeout=300), real[2])
    report["limits"] = limits(real[0], limited_key, real[2])
    return report


if __name__ == "__main__":
    print("REPORT " + json.dumps(main(tuple(sys.argv[1:4]), tuple(sys.argv[4:7]), sys.argv[7])))
