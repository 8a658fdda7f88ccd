"""What LiteLLM and LangChain make of a prompt that is too long, and of a value out of its limits. Prints REPORT and JSON."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import openai
from langchain_openai import ChatOpenAI


def named(call) -> list:
    """The classes of what the call raises, the nearest first."""
    try:
        call()
    except Exception as error:
        return [kind.__name__ for kind in type(error).__mro__[:-3]] + [str(error)[:300]]
    return ["nothing"]


def main(url: str, key: str, model: str) -> dict:
    long = [{"role": "user", "content": "x" * 9000}]
    hello = [{"role": "user", "content": "hi"}]
    options = {"api_base": url, "api_key": key, "num_retries": 0}
    chat = ChatOpenAI(model=model, base_url=url, api_key=key, max_retries=0)
    raw = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
    return {
        "litellm": named(lambda: litellm.completion(model=f"hosted_vllm/{model}", messages=long, **options)),
        "litellm_openai": named(lambda: litellm.completion(model=f"openai/{model}", messages=long, **options)),
        "litellm_stream": named(lambda: list(litellm.completion(model=f"hosted_vllm/{model}", messages=long, stream=True, **options))),
        "litellm_text": named(lambda: litellm.text_completion(model=f"text-completion-openai/{model}", prompt="x" * 9000, **options)),
        "litellm_value": named(lambda: litellm.completion(model=f"hosted_vllm/{model}", messages=hello, top_p=2, **options)),
        "langchain": named(lambda: chat.invoke("x" * 9000)),
        "langchain_stream": named(lambda: list(chat.stream("x" * 9000))),
        "openai_value": named(lambda: raw.chat.completions.create(model=model, messages=hello, top_p=2)),
    }


if __name__ == "__main__":
    print("REPORT " + json.dumps(main(*sys.argv[1:4])))
