/** Test templates in the style of real ones. */

/** ChatML turns with Hermes tool calls; content must be a string. */
export const CHATML = `{%- if tools %}{{ '<|im_start|>tools\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;

/**
 * Like Qwen3: reasoning before the last user message is dropped, and an empty think block opens the answer if
 * thinking is off.
 */
export const THINKING = `{%- set ns = namespace(last_user=-1) -%}
{%- for message in messages -%}{%- if message.role == 'user' -%}{%- set ns.last_user = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{%- set content = message.content -%}
{%- set reasoning = message.reasoning_content or '' -%}
{%- if '</think>' in content -%}
{%- set reasoning = content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}
{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{%- if loop.index0 > ns.last_user and reasoning -%}
{{ '<|im_start|>assistant\\n<think>\\n' + reasoning + '\\n</think>\\n\\n' + content + '<|im_end|>\\n' }}
{%- else -%}
{{ '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}
{%- endif -%}
{%- else -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false -%}{{ '<think>\\n\\n</think>\\n\\n' }}{%- endif -%}
{%- endif -%}`;

/** Iterates over content parts, like templates of multimodal models. */
export const PARTS = `{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['role'] == 'tool' -%}{{ message['content'] }}{%- else -%}
{%- for part in message['content'] -%}{{ part['text'] }}{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}`;

/** ChatML without tools and calls; SmolLM2's default message if there is no system message. */
export const TOOLLESS = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;

/** Like Qwen 2.5 and 3: tools in the system message, Hermes calls, answers in a user message. */
export const QWEN = `{%- if tools -%}
{{ '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' -%}{{ messages[0].content + '\\n\\n' }}{%- endif -%}
{{ '<tools>' }}
{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}
{{ '\\n</tools>\\nAnswer with <tool_call>{"name": <name>, "arguments": <arguments>}</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' -%}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' -%}
{{ '<|im_start|>assistant\\n' + message.content }}
{%- for call in message.tool_calls or [] -%}
{%- if not loop.first or message.content -%}{{ '\\n' }}{%- endif -%}
{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|im_start|>user' }}{%- endif -%}
{{ '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\\n' }}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;

/** Like Qwen 3 Coder: calls in XML, values other than text as JSON. */
export const QWEN_XML = `{%- if tools -%}{{ '<|im_start|>system\\nCall as <function=name><parameter=key>value</parameter></function>.' }}
{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}{{ '<|im_end|>\\n' }}{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for key, value in call.function.arguments | items -%}
{{ '<parameter=' + key + '>\\n' }}{{ value if value is string else value | tojson }}{{ '\\n</parameter>\\n' }}
{%- endfor -%}
{{ '</function>\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;

/** Like Llama 3.1: trims, tools in the first user message, one call per message, answers from "ipython". */
export const LLAMA3 = `{{- bos_token }}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + message.content | tojson + '<|eot_id|>' }}
{%- elif message.tool_calls -%}
{%- if message.tool_calls | length != 1 -%}{{ raise_exception('This model only supports single tool-calls at once!') }}{%- endif -%}
{%- set call = message.tool_calls[0].function -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' + '{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + '}<|eot_id|>' }}
{%- else -%}
{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
{%- if tools and message.role == 'user' and loop.first -%}
{{ 'Respond in the format {"name": function name, "parameters": dictionary}.\\n' }}
{%- for tool in tools -%}{{ tool | tojson(indent=4) + '\\n\\n' }}{%- endfor -%}
{%- endif -%}
{{ message.content | trim + '<|eot_id|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}`;

/** Like Mistral 7B v0.3: alternating roles, tools before the last user message, ids of 9 characters. */
export const MISTRAL = `{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content -%}{%- set turns = messages[1:] -%}{%- else -%}{%- set system = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- set users = turns | selectattr('role', 'equalto', 'user') | list -%}
{{ bos_token }}
{%- for message in turns -%}
{%- if message.role == 'user' -%}
{%- if tools and message == users[-1] -%}{{ '[AVAILABLE_TOOLS] ' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{%- endif -%}
{{ '[INST] ' }}{%- if system and message == users[-1] -%}{{ system + '\\n\\n' }}{%- endif -%}{{ message.content + '[/INST]' }}
{%- elif message.tool_calls -%}
{{ '[TOOL_CALLS] [' }}
{%- for call in message.tool_calls -%}
{%- if call.id is not defined or call.id | length != 9 -%}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif -%}
{{ (call.function | tojson)[:-1] + ', "id": "' + call.id + '"}' }}{%- if not loop.last -%}{{ ', ' }}{%- endif -%}
{%- endfor -%}
{{ ']' + eos_token }}
{%- elif message.role == 'assistant' -%}{{ ' ' + message.content | trim + eos_token }}
{%- elif message.role == 'tool' -%}{{ '[TOOL_RESULTS] {"content": ' + message.content | tojson + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else -%}{{ raise_exception('Only user and assistant roles are supported, got ' + message.role) }}
{%- endif -%}
{%- endfor -%}`;

/** Like LFM 2: Python calls between two tokens. */
export const PYTHONIC = `{{- bos_token }}
{%- if tools -%}{{ '<|im_start|>system\\nList of tools: ' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.tool_calls -%}
{{ '<|tool_call_start|>[' }}
{%- for call in message.tool_calls -%}
{{ call.function.name + '(' }}
{%- for key, value in call.function.arguments | items -%}{{ key + '=' + (value | tojson) }}{%- if not loop.last -%}{{ ', ' }}{%- endif -%}{%- endfor -%}
{{ ')' }}{%- if not loop.last -%}{{ ', ' }}{%- endif -%}
{%- endfor -%}
{{ ']<|tool_call_end|>' }}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;
