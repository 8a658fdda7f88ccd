"""Drives running services with one unmodified client, as its users do. Prints one JSON object; any failure is an exception.

usage: forms_client.py CLIENT SCRIPTED_URL SCRIPTED_KEY SCRIPTED_MODEL REAL_URL REAL_KEY REAL_MODEL

The scripted one plays the part that packages/server/src/testing/scripted-main.ts describes: it calls tools, reasons and writes JSON.
"""

import asyncio
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

from pydantic import BaseModel

# Nothing here may look for anything on the network.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", DO_NOT_TRACK="1")

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASK_WEATHER = "What is the weather in Zürich and Rome?"


class Report(BaseModel):
    city: str
    degrees: int


def error_of(call) -> list:
    """The class and status of what a call raises."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None)]
    raise AssertionError("it did not fail")


def run_openai(url, key, model, _real):
    import openai

    client = openai.OpenAI(base_url=url, api_key=key)
    tool = {"type": "function", "name": "weather", "description": "Of a city.", "parameters": WEATHER, "strict": False}
    plain = client.responses.create(model=model, input="Good day", store=False)
    # Asks, answers the calls, asks again, as agents do without stored responses.
    items: list = [{"role": "user", "content": ASK_WEATHER}]
    first = client.responses.create(model=model, input=items, tools=[tool], store=False)
    calls = [item for item in first.output if item.type == "function_call"]
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items += [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"sun in {json.loads(call.arguments)['city']}"}
        for call in calls
    ]
    second = client.responses.create(model=model, input=items, tools=[tool], store=False)
    with client.responses.stream(model=model, input=ASK_WEATHER, tools=[tool], store=False) as stream:
        types = [event.type for event in stream]
        streamed = stream.get_final_response()
    parsed = client.responses.parse(model=model, input="Some json please", text_format=Report, store=False)
    scored = client.responses.create(
        model=model, input="Good day", top_logprobs=2, include=["message.output_text.logprobs"], store=False
    )
    message = next(item for item in scored.output if item.type == "message")
    # Agents that keep the conversation themselves send the reasoning back in its other spelling alone.
    include: list = ["reasoning.encrypted_content"]
    kept = client.responses.create(model=model, input=items[:1], tools=[tool], store=False, include=include)
    carried: list = [items[0]]
    for item in kept.output:
        fields = item.model_dump(exclude_none=True, exclude={"content"} if item.type == "reasoning" else None)
        carried.append(fields)
        if item.type == "function_call":
            carried.append({"type": "function_call_output", "call_id": item.call_id, "output": "sun"})
    told = client.responses.create(model=model, input=carried, tools=[tool], store=False)
    count = client.responses.input_tokens.count(model=model, input=carried, tools=[tool])
    # With stored responses, the client's default: the second turn names the first one.
    stored = client.responses.create(model=model, input=ASK_WEATHER, tools=[tool])
    results: list = [
        {"type": "function_call_output", "call_id": item.call_id, "output": f"sun in {json.loads(item.arguments)['city']}"}
        for item in stored.output
        if item.type == "function_call"
    ]
    chained = client.responses.create(model=model, input=results, tools=[tool], previous_response_id=stored.id)
    listed = client.responses.input_items.list(chained.id, order="asc", limit=3)
    polled = client.responses.create(model=model, input="Good day", background=True)
    while polled.status in ("queued", "in_progress"):
        time.sleep(0.05)
        polled = client.responses.retrieve(polled.id)
    events = list(client.responses.create(model=model, input="Good day", background=True, stream=True))
    resumed = list(client.responses.retrieve(events[0].response.id, stream=True, starting_after=2))
    essay = client.responses.create(model=model, input="An essay, please", background=True)
    cancelled = client.responses.cancel(essay.id)
    client.responses.delete(stored.id)
    try:
        client.embeddings.create(model=model, input="text")
        absent = None
    except openai.NotFoundError as error:
        absent = str(error)
    return {
        "version": openai.__version__,
        "plain": plain.output_text,
        "reasoning": [part.text for item in plain.output if item.type == "reasoning" for part in item.content],
        "calls": [json.loads(call.arguments)["city"] for call in calls],
        "answer": second.output_text,
        "streamed": [item.arguments for item in streamed.output if item.type == "function_call"]
        == [call.arguments for call in calls],
        "types": sorted(set(types)),
        "parsed": parsed.output_parsed.model_dump(),
        "num_tops": sorted({len(entry.top_logprobs) for entry in message.content[0].logprobs}),
        "carried": told.output_text,
        "chained": chained.output_text,
        "listed": [item.type for item in listed],
        "polled": polled.output_text,
        "resumed": [event.type for event in events[3:]] == [event.type for event in resumed],
        "cancelled": [cancelled.status, client.responses.retrieve(essay.id).status],
        "counted": count.input_tokens - told.usage.input_tokens,
        "usage": plain.usage.input_tokens + plain.usage.output_tokens - plain.usage.total_tokens,
        "errors": [
            error_of(lambda: client.responses.create(model=model, input="x", previous_response_id="resp_none")),
            error_of(lambda: client.responses.create(model="none", input="x")),
            error_of(lambda: client.responses.retrieve(stored.id)),
            error_of(lambda: client.with_options(api_key="none").responses.create(model=model, input="x")),
        ],
        "absent": absent,
    }


def run_anthropic(url, key, model, _real):
    import anthropic

    client = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key=key, max_retries=0)
    tools = [{"name": "weather", "description": "Of a city.", "input_schema": WEATHER}]
    ask = {"model": model, "max_tokens": 400}
    messages: list = [{"role": "user", "content": ASK_WEATHER}]
    first = client.messages.create(**ask, messages=messages, tools=tools)
    calls = [block for block in first.content if block.type == "tool_use"]
    messages += [
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": f"sun in {call.input['city']}"} for call in calls
            ],
        },
    ]
    second = client.messages.create(**ask, messages=messages, tools=tools)
    with client.messages.stream(**ask, messages=messages[:1], tools=tools) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    count = client.messages.count_tokens(model=model, messages=messages[:1], tools=tools)
    usage = first.usage
    bearer = anthropic.Anthropic(base_url=url.removesuffix("/v1"), auth_token=key, api_key=None, max_retries=0)
    try:
        client.messages.create(**ask, messages=[{"role": "user", "content": "x"}], extra_body={"container": "c"})
        refused = None
    except anthropic.BadRequestError as error:
        refused = [error.type, error.body["error"]["param"], error.request_id is not None]
    return {
        "version": anthropic.__version__,
        "types": [block.type for block in first.content],
        "signed": [block.signature for block in (*first.content, *final.content) if block.type == "thinking"],
        "cities": [call.input["city"] for call in calls],
        "stop": [first.stop_reason, second.stop_reason],
        "answer": "".join(block.text for block in second.content if block.type == "text"),
        "streamed_text": text.strip(),
        "streamed": [block.input for block in final.content if block.type == "tool_use"] == [call.input for call in calls],
        "counted": count.input_tokens - usage.input_tokens - usage.cache_read_input_tokens,
        "bearer": bearer.messages.create(**ask, messages=[{"role": "user", "content": "Good day"}]).content[-1].text,
        "refused": refused,
        "errors": [
            error_of(lambda: client.messages.create(model=model, max_tokens=0, messages=messages[:1])),
            error_of(lambda: client.messages.create(**{**ask, "model": "none"}, messages=messages[:1])),
            error_of(lambda: client.with_options(api_key="none").messages.create(**ask, messages=messages[:1])),
            error_of(lambda: client.messages.create(**ask, messages=[{"role": "user", "content": "a " * 9000}])),
        ],
    }


def run_litellm(url, key, model, _real):
    import litellm

    tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    common = {"api_key": key, "num_retries": 0}
    chat = {**common, "model": f"hosted_vllm/{model}", "api_base": url}
    ask = [{"role": "user", "content": ASK_WEATHER}]
    called = litellm.completion(**chat, messages=ask, tools=tools).choices[0]
    chunks = list(litellm.completion(**chat, messages=[{"role": "user", "content": "Good day"}], stream=True))
    anthropic = {**common, "model": f"anthropic/{model}", "api_base": url.removesuffix("/v1"), "max_tokens": 200}
    through = litellm.completion(**anthropic, messages=[{"role": "user", "content": "Good day"}]).choices[0].message
    response = litellm.responses(
        **common, model=f"openai/{model}", api_base=url, input="Good day", custom_llm_provider="openai", store=False
    )
    text = [part.text for item in response.output if item.type == "message" for part in item.content]
    long = [{"role": "user", "content": "a " * 9000}]
    return {
        "calls": [json.loads(call.function.arguments)["city"] for call in called.message.tool_calls],
        "finish": called.finish_reason,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices).strip(),
        "anthropic": through.content,
        "responses": "".join(text),
        "errors": [
            error_of(lambda: litellm.completion(**chat, messages=long)),
            error_of(lambda: litellm.completion(**{**chat, "api_key": "none"}, messages=ask)),
        ],
    }


def run_langchain(url, key, model, _real):
    import openai
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def weather(city: str) -> str:
        """Of a city."""
        return f"sun in {city}"

    report = {}
    for form in (False, True):
        chat = ChatOpenAI(base_url=url, api_key=key, model=model, use_responses_api=form, max_retries=0)
        messages: list = [HumanMessage(ASK_WEATHER)]
        bound = chat.bind_tools([weather])
        asked = bound.invoke(messages)
        messages += [asked, *(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in asked.tool_calls)]
        answered = bound.invoke(messages)
        if form:
            # Sends what is new, behind the id of the answer before it.
            chained = bound.model_copy(update={"bound": bound.bound.model_copy(update={"use_previous_response_id": True})})
            report["chained"] = chained.invoke(messages).text.strip()
        # The first turn once more, streamed, and a second one behind it.
        streamed_ask = None
        for chunk in bound.stream(messages[:1]):
            streamed_ask = chunk if streamed_ask is None else streamed_ask + chunk
        results = [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in streamed_ask.tool_calls]
        turns = [messages[0], streamed_ask, *results, answered, HumanMessage("And the weather in Rome, please?")]
        again = bound.invoke(turns)
        turns += [again, *(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in again.tool_calls)]
        second = bound.invoke(turns)
        if form:
            kept = openai.OpenAI(base_url=url, api_key=key).responses.input_items
            report["prompt"] = [item.type for item in kept.list(second.response_metadata["id"], order="asc", limit=100)]
        structured = chat.with_structured_output(Report, method="json_schema").invoke("Some json please")
        streamed = "".join(chunk.text for chunk in chat.stream("Good day"))
        report["responses" if form else "chat"] = {
            "cities": [call["args"]["city"] for call in asked.tool_calls],
            "answer": answered.text.strip(),
            "streamed_cities": [call["args"]["city"] for call in streamed_ask.tool_calls],
            "second": second.text.strip(),
            "structured": structured.model_dump(),
            "streamed": streamed.strip(),
        }
    return report


def run_instructor(url, key, model, real):
    import instructor
    import openai

    client = openai.OpenAI(base_url=url, api_key=key)
    structured = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
    found = structured.create(
        model=model, response_model=Report, messages=[{"role": "user", "content": "Some json please"}], max_retries=0
    )
    real_url, real_key, real_model = real
    forced = instructor.from_openai(openai.OpenAI(base_url=real_url, api_key=real_key), mode=instructor.Mode.TOOLS)

    class Answer(BaseModel):
        is_blue: bool

    answer = forced.create(
        model=real_model,
        response_model=Answer,
        messages=[{"role": "user", "content": "Is the sky blue?"}],
        max_retries=0,
        max_tokens=40,
        temperature=0,
    )
    return {"json_schema": found.model_dump(), "tools": type(answer.is_blue).__name__}


def run_lm_eval(_url, _key, _model, real):
    import lm_eval
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks import TaskManager

    url, key, model = real
    os.environ["OPENAI_API_KEY"] = key
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {"question": "The capital of France is", "choices": [" Paris", " a banana"], "answer": 0},
            {"question": "Two and two make", "choices": [" Wednesday", " four"], "answer": 1},
            {"question": "The sun rises in the", "choices": [" east", " telephone"], "answer": 0},
        ]
        data = Path(folder, "rows.jsonl")
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path(folder, "facts.yaml").write_text(
            "task: facts\ndataset_path: json\n"
            f"dataset_kwargs:\n  data_files:\n    test: {data}\n"
            "test_split: test\noutput_type: multiple_choice\n"
            "doc_to_text: '{{question}}'\ndoc_to_choice: '{{choices}}'\ndoc_to_target: '{{answer}}'\n"
            "target_delimiter: ''\nmetric_list:\n  - metric: acc\n    aggregation: mean\n    higher_is_better: true\n"
        )
        os.environ["HF_DATASETS_CACHE"] = str(Path(folder, "cache"))
        api = LocalCompletionsAPI(
            base_url=f"{url}/completions",
            model=model,
            tokenizer_backend="remote",
            auth_token=key,
            num_concurrent=2,
            max_retries=1,
        )
        found = lm_eval.simple_evaluate(
            model=api,
            tasks=["facts"],
            task_manager=TaskManager(include_path=folder, include_defaults=False),
            log_samples=True,
            bootstrap_iters=0,
        )
    samples = found["samples"]["facts"]
    likelihoods = [float(response[0]) for sample in samples for response in sample["filtered_resps"]]
    return {
        "accuracy": found["results"]["facts"]["acc,none"],
        "num_likelihoods": len(likelihoods),
        "are_negative": all(math.isfinite(value) and value < 0 for value in likelihoods),
        "is_greedy": sorted({type(response[1]).__name__ for sample in samples for response in sample["filtered_resps"]}),
    }


def run_inspect(url, key, model, _real):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import tool

    @tool
    def weather():
        async def execute(city: str):
            """Tells the weather.

            Args:
                city: The name of the city.
            """
            return f"sun in {city}"

        return execute

    report = {}
    task = Task(
        dataset=[Sample(input=ASK_WEATHER, target="sun in Rome")], solver=[use_tools(weather()), generate()], scorer=includes()
    )
    models = {
        "chat": get_model(f"openai-api/trainyard/{model}", base_url=url, api_key=key),
        "responses": get_model(f"openai-api/trainyard/{model}", base_url=url, api_key=key, responses_api=True),
    }
    with tempfile.TemporaryDirectory() as folder:
        for form, served in models.items():
            [log] = eval(task, model=served, log_dir=folder, display="none", max_tokens=400)
            if log.status != "success":
                raise AssertionError(f"{form}: {log.error.message if log.error else log.status}")
            report[form] = log.results.scores[0].metrics["accuracy"].value
    return report


RUNS = {
    "openai": run_openai,
    "anthropic": run_anthropic,
    "litellm": run_litellm,
    "langchain": run_langchain,
    "instructor": run_instructor,
    "lm_eval": run_lm_eval,
    "inspect": run_inspect,
}

if __name__ == "__main__":
    name, scripted_url, scripted_key, scripted_model, *real = sys.argv[1:]
    print("REPORT " + json.dumps(RUNS[name](scripted_url, scripted_key, scripted_model, real)))
