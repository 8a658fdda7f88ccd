"""Renders the lines of a fixture again with jinja2 as transformers sets it up, and writes their texts.

    python3 lab/jinja2/record-texts.py packages/tokenizer/src/template/fixtures/jinja2.json

Needs: pip install transformers==5.24.0 jinja2==3.1.6. A line is [template, variables as JSON text, text].
The variables are null for those that many lines share, the text is null where Python fails.
"""
import json
import sys

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template


def render(template, variables):
    try:
        return _compile_jinja_template(template).render(**json.loads(variables))
    except Exception:
        return None


path = sys.argv[1]
with open(path) as file:
    fixture = json.load(file)
shared = fixture["variables"]
versions = {"jinja2": jinja2.__version__, "transformers": transformers.__version__}
rendered = [[template, variables, render(template, variables or shared)] for template, variables, _ in fixture["lines"]]
with open(path, "w") as file:
    rows = ",\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in rendered)
    file.write(f'{{"versions": {json.dumps(versions)}, "variables": {json.dumps(shared, ensure_ascii=False)}, "lines": [\n{rows}\n]}}\n')
