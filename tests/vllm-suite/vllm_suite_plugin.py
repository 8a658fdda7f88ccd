"""Lets vLLM's own entrypoint tests talk to a running service instead of starting vLLM.

Only fixtures are adapted. `tests.utils.RemoteOpenAIServer` is a handle on the service; the packages that start or parse vLLM are absent, so imports of `vllm` and
`torch` give stand-ins; every name of a model is the one that the service has; `zephyr-lora` is a model that was registered there. Tests that ask for no server test
vLLM's Python classes and are left out.
"""

import importlib.abc
import importlib.machinery
import os
import re
import sys
import types
from unittest.mock import MagicMock

import anthropic
import openai
import pytest
import requests

URL = os.environ["SUITE_URL"]  # without /v1
KEY = os.environ["SUITE_KEY"]
UNLIMITED_URL = os.environ["SUITE_UNLIMITED_URL"]
UNLIMITED_KEY = os.environ["SUITE_UNLIMITED_KEY"]
MODEL = os.environ["SUITE_MODEL"]
ABSENT = ("vllm", "torch", "transformers", "huggingface_hub", "PIL", "librosa", "soundfile", "msgspec")
SERVER_FIXTURES = {"server", "client", "remote_server", "unix_client", "server_with_api_key"}


class StandIn(types.ModuleType):
    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "vllm.envs":
            return False  # no switch is on: a stand-in would count as true, and skip tests
        value = ERRORS.get(name) or MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


ERRORS = {"VLLMValidationError": type("VLLMValidationError", (ValueError,), {})}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, StandIns())

# Their tests call the service with `requests` and no key: a server of theirs has none unless it is given one.
_request = requests.Session.request


def _request_with_key(self, method, url, **options):
    headers = {"Authorization": f"Bearer {KEY}", **(options.pop("headers", None) or {})}
    return _request(self, method, url, headers=headers, **options)


requests.Session.request = _request_with_key


MAX_TOKENS = {"/chat/completions": 128, "/responses": 256}
LIMITS = {"/chat/completions": ("max_tokens", "max_completion_tokens"), "/responses": ("max_output_tokens",)}
NAMES_OF_THEIRS: set = set()


def adapted(options):
    """Names the model that is served, and bounds a reply: without a limit it goes on to the end of the context, which takes minutes on a small machine."""
    body = options.json_data
    if not isinstance(body, dict):
        return options
    body = dict(body)
    if body.get("model") in NAMES_OF_THEIRS:
        body["model"] = MODEL
    for path, limits in LIMITS.items():
        if options.url.endswith(path) and all((body | (options.extra_json or {})).get(limit) is None for limit in limits):
            body[limits[-1]] = MAX_TOKENS[path]
    if "completions" in options.url or options.url.endswith("/responses"):
        # The same replies in every run, but for tests that are about seeds.
        body = {"seed": 1, **body}
    options.json_data = body
    return options


class Client(openai.OpenAI):
    def _prepare_options(self, options):
        return adapted(super()._prepare_options(options))


class AsyncClient(openai.AsyncOpenAI):
    async def _prepare_options(self, options):
        return adapted(await super()._prepare_options(options))


class AsyncAnthropicClient(anthropic.AsyncAnthropic):
    async def _prepare_options(self, options):
        return adapted(await super()._prepare_options(options))


class RemoteOpenAIServer:
    """A handle on the service, or on the one without a limit of log-probabilities for the file that asks for it."""

    DUMMY_API_KEY = KEY
    uds = None

    def __init__(self, model, vllm_serve_args=(), **options):
        is_unlimited = "--max-logprobs" in vllm_serve_args
        self.url_root = UNLIMITED_URL if is_unlimited else URL
        self.key = UNLIMITED_KEY if is_unlimited else KEY
        arguments = list(vllm_serve_args)
        if "--lora-modules" in arguments:
            for module in arguments[arguments.index("--lora-modules") + 1 :]:
                if module.startswith("--"):
                    break
                self._register(module.split("=")[0])
        if "--served-model-name" in arguments:
            NAMES_OF_THEIRS.add(arguments[arguments.index("--served-model-name") + 1])

    def _register(self, name):
        """A model that is trained here, in place of an adapter of theirs."""
        body = {"name": name, "project": "vllm-suite", "base_model": MODEL}
        requests.post(self.url_for("v1/preview/models"), json=body, headers={"Authorization": f"Bearer {self.key}"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def url_for(self, *parts):
        return self.url_root + "/" + "/".join(parts)

    def get_client(self, **options):
        return Client(base_url=self.url_for("v1"), api_key=self.key, max_retries=0, **{"timeout": 300, **options})

    def get_async_client(self, **options):
        return AsyncClient(base_url=self.url_for("v1"), api_key=self.key, max_retries=0, **{"timeout": 300, **options})

    def get_async_client_anthropic(self, **options):
        return AsyncAnthropicClient(base_url=self.url_root, api_key=self.key, max_retries=0, **{"timeout": 300, **options})


class Tokenizer:
    """The service's own: what is compared with it is how fields use it."""

    eos_token_id = 2  # <|im_end|>
    extra_special_tokens_ids: list = []

    def encode(self, text, add_special_tokens=True, **_):
        body = {"model": MODEL, "prompt": text, "add_special_tokens": add_special_tokens}
        return requests.post(URL + "/tokenize", json=body).json()["tokens"]

    def __call__(self, text, **options):
        return types.SimpleNamespace(input_ids=self.encode(text, **options))

    def decode(self, ids, skip_special_tokens=False, **_):
        text = requests.post(URL + "/detokenize", json={"model": MODEL, "tokens": list(ids)}).json()["prompt"]
        return re.sub(r"<\|\w+\|>", "", text) if skip_special_tokens else text

    def apply_chat_template(self, conversation=None, messages=None, tokenize=True, **options):
        chosen = {name: options[name] for name in ("add_generation_prompt", "continue_final_message", "tools") if name in options}
        body = {"model": MODEL, "messages": conversation or messages, **chosen, **options.get("chat_template_kwargs", {})}
        ids = requests.post(URL + "/tokenize", json=body).json()["tokens"]
        if options.get("return_dict"):
            return types.SimpleNamespace(input_ids=ids)
        return ids if tokenize else self.decode(ids)

    def convert_ids_to_tokens(self, ids, **_):
        body = {"model": MODEL, "prompt": self.decode(ids), "return_token_strs": True, "add_special_tokens": False}
        return requests.post(URL + "/tokenize", json=body).json()["token_strs"]


utils = StandIn("tests.utils")
utils.RemoteOpenAIServer = RemoteOpenAIServer
utils.ROCM_EXTRA_ARGS = []
utils.multi_gpu_only = lambda **_: pytest.mark.skip(reason="needs several GPUs")
utils.requires_fp8 = pytest.mark.skip(reason="needs a GPU with FP8")
sys.modules["tests.utils"] = utils
import torch  # noqa: E402  a stand-in
import vllm.tokenizers  # noqa: E402  a stand-in

import vllm.model_executor.model_loader.weight_utils  # noqa: E402  a stand-in

vllm.model_executor.model_loader.weight_utils.download_weights_from_hf = lambda *_, **__: MODEL
torch.iinfo = lambda *_: types.SimpleNamespace(min=-(2**63), max=2**63 - 1)

vllm.tokenizers.get_tokenizer = lambda *_, **__: Tokenizer()
import transformers  # noqa: E402  a stand-in

transformers.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda *_, **__: Tokenizer())
import vllm.config  # noqa: E402  a stand-in


def vocabulary_size() -> int:
    """The message of a bad `logit_bias` tells it."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "logit_bias": {"99999999": 1}}
    message = requests.post(URL + "/v1/chat/completions", json=body).json()["error"]["message"]
    return int(re.search(r"\[0, (\d+)\)", message).group(1))


vllm.config.ModelConfig = lambda *_, **__: types.SimpleNamespace(get_vocab_size=vocabulary_size)


def ours(value, theirs):
    """The value with every name of a model of theirs replaced by the service's."""
    if isinstance(value, str):
        return MODEL if value in theirs else value
    if isinstance(value, tuple) and hasattr(value, "_replace"):
        return value._replace(**{name: ours(member, theirs) for name, member in value._asdict().items()})
    if isinstance(value, dict):
        return {name: ours(member, theirs) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(ours(member, theirs) for member in value)
    return value


def names_of_models(module) -> set:
    return {value for name, value in vars(module).items() if "MODEL" in name and isinstance(value, str) and "/" in value}


def pytest_collection_modifyitems(config, items):
    kept, left = [], []
    for item in items:
        theirs = names_of_models(item.module)
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        for name, value in parameters.items():
            parameters[name] = ours(value, theirs)
        talks = SERVER_FIXTURES & set(item.fixturenames) or any("server" in name or "client" in name for name in item.fixturenames)
        (kept if talks else left).append(item)
    for module in {item.module for item in items}:
        theirs = names_of_models(module)
        for name, value in list(vars(module).items()):
            if isinstance(value, str) and value in theirs:
                setattr(module, name, MODEL)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


RESULTS: dict = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped:
        RESULTS.setdefault(item.nodeid, ("skipped", ""))
    elif report.failed:
        RESULTS[item.nodeid] = ("failed", str(call.excinfo.value).split("\n")[0][:300] if call.excinfo else "")
    elif report.when == "call":
        RESULTS[item.nodeid] = ("passed", "")


def pytest_collectreport(report):
    if report.failed:
        RESULTS[report.nodeid] = ("failed", "collection: " + str(report.longrepr)[-300:])


def pytest_sessionfinish(session):
    import json

    with open(os.environ["SUITE_REPORT"], "w") as file:
        json.dump(RESULTS, file)
