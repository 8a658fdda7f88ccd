"""Chat templates of two published packages, and their texts as jinja2 renders them with the settings of transformers.

    python templates.py extract ARCHIVES TEMPLATES                    writes {name: source}
    python templates.py digests TEMPLATES CONVERSATIONS DIGESTS       writes the fixture
"""
import copy
import datetime
import glob
import hashlib
import json
import os
import re
import sys
import tarfile
import zipfile

# Texts that tokenizers without special settings have. See `CLOCK`, `BOS` and `EOS` in compare.ts.
BASE = {"tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
CLOCK = datetime.datetime(2026, 3, 4, 12, 0)


def extract(archives, path):
    templates = {}
    for wheel in glob.glob(f"{archives}/*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".jinja"):
                    templates[f"trl/{os.path.basename(name)}"] = archive.read(name).decode()
    for source in glob.glob(f"{archives}/*.tar.gz"):
        with tarfile.open(source) as archive:
            for member in archive:
                if member.name.endswith(".jinja"):
                    templates[f"llama-cpp/{os.path.basename(member.name)}"] = archive.extractfile(member).read().decode()
    with open(path, "w") as file:
        json.dump(dict(sorted(templates.items())), file)
    print(len(templates), "templates")


def texts_of(content):
    """Content of a request as the texts that a template is given."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    return [part.get("text", part.get("thinking")) for part in content]


def message_for(message, takes_parts):
    texts = texts_of(message.get("content"))
    is_text = not takes_parts or message["role"] == "tool"
    given = {"role": message["role"], "content": "\n".join(texts) if is_text else [{"type": "text", "text": text} for text in texts]}
    for name in ["name", "tool_call_id"]:
        if name in message and (name == "name" or message["role"] == "tool"):
            given[name] = message[name]
    if message["role"] != "assistant":
        return given
    if "tool_calls" in message:
        given["tool_calls"] = copy.deepcopy(message["tool_calls"])
        for call in given["tool_calls"]:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    if "reasoning_content" in message:
        given["reasoning"] = given["reasoning_content"] = message["reasoning_content"]
    return given


def merged(messages, takes_parts):
    """Templates that do not name the role `developer` are given one system message instead."""
    if not any(message["role"] == "developer" for message in messages):
        return messages
    instructions = [m for m in messages if m["role"] in ("developer", "system")]
    texts = [m["content"] if isinstance(m["content"], str) else "\n".join(p["text"] for p in m["content"]) for m in instructions]
    text = "\n\n".join(texts)
    content = [{"type": "text", "text": text}] if takes_parts else text
    return [{"role": "system", "content": content}] + [m for m in messages if m not in instructions]


def variables(request, source, takes_parts):
    messages = [message_for(message, takes_parts) for message in request["messages"]]
    if not re.search(r"""(['"])developer\1""", source):
        messages = merged(messages, takes_parts)
    own = {name: value for name, value in request.items() if name != "chat_template_kwargs"}
    return {**BASE, **request.get("chat_template_kwargs", {}), **own, "messages": messages}


def digests(templates_path, conversations_path, path):
    import jinja2
    import transformers
    from transformers.utils.chat_template_utils import _compile_jinja_template

    def render(source, values):
        """The text, or None where it fails, with the reason."""
        try:
            return _compile_jinja_template(source).render(strftime_now=CLOCK.strftime, **values), ""
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"

    def digest(source, request, takes_parts):
        text, _ = render(source, variables(request, source, takes_parts))
        return None if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]

    def needs_parts(source):
        probe = {"messages": [{"role": "user", "content": "qzqmark"}]}
        has_mark = [(render(source, variables(probe, source, parts))[0] or "") for parts in (False, True)]
        return "qzqmark" not in has_mark[0] and "qzqmark" in has_mark[1]

    with open(templates_path) as file:
        templates = json.load(file)
    with open(conversations_path) as file:
        conversations = json.load(file)
    versions = {"jinja2": jinja2.__version__, "transformers": transformers.__version__}
    rows = []
    for name, source in templates.items():
        takes_parts = needs_parts(source)
        row = [digest(source, conversation["request"], takes_parts) for conversation in conversations]
        rows.append(f"{json.dumps(name)}: {json.dumps(row)}")
    with open(path, "w") as file:
        lines = ",\n".join(rows)
        file.write(f'{{"versions": {json.dumps(versions)}, "digests": {{\n{lines}\n}}}}\n')
    print(len(templates), "templates,", len(conversations), "conversations")


{"extract": extract, "digests": digests}[sys.argv[1]](*sys.argv[2:])
