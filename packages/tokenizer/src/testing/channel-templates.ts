/** Test templates in the style of real ones, with control tokens for tool calls, roles or channels. */

/** Like Granite 3: roles between two tokens, calls as a JSON list after one. */
export const GRANITE = `{%- if tools -%}{{ '<|start_of_role|>system<|end_of_role|>Write <|tool_call|> and a JSON list of calls. Tools:' }}
{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}
{{ '<|end_of_text|>\\n' }}{%- endif -%}
{%- for message in messages -%}
{{ '<|start_of_role|>' + ('tool_response' if message.role == 'tool' else message.role) + '<|end_of_role|>' + message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '<|tool_call|>[' if loop.first else ', ' }}
{{- '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}' }}
{%- if loop.last -%}{{ ']' }}{%- endif -%}
{%- endfor -%}
{{ '<|end_of_text|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif -%}`;

/** Like Command R7B: numbered calls between two tokens, all results of a turn in one system message. */
export const COMMAND = `{{- bos_token -}}
{%- set ns = namespace(calls=0, results=0) -%}
{%- if tools -%}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|># Tools\\n' + (tools | map(attribute='function') | list | tojson(indent=4)) + '<|END_OF_TURN_TOKEN|>' }}{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TOOL_RESULT|>[' }}{%- else -%}{{ ',' }}{%- endif -%}
{{ '\\n    {"tool_call_id": "' ~ ns.results ~ '", "results": {"0": ' + (message.content | tojson) + '}}' }}
{%- set ns.results = ns.results + 1 -%}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '\\n]<|END_TOOL_RESULT|><|END_OF_TURN_TOKEN|>' }}{%- endif -%}
{%- else -%}
{{ '<|START_OF_TURN_TOKEN|><|' + {'user': 'USER', 'assistant': 'CHATBOT'}.get(message.role, 'SYSTEM') + '_TOKEN|>' + message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '<|START_ACTION|>[' if loop.first else ',' }}
{{- '\\n    {"tool_call_id": "' ~ ns.calls ~ '", "tool_name": "' + call.function.name + '", "parameters": ' + (call.function.arguments | tojson) + '}' }}
{%- set ns.calls = ns.calls + 1 -%}
{%- if loop.last -%}{{ '\\n]<|END_ACTION|>' }}{%- endif -%}
{%- endfor -%}
{{ '<|END_OF_TURN_TOKEN|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif -%}`;

/**
 * Like GLM 4.6: the next role ends a turn, not a token; calls in keys and values, strings plain and the rest as
 * JSON.
 */
export const GLM = `[gMASK]<sop>
{%- if tools -%}{{ '<|system|>\\nCall as <tool_call>name\\n<arg_key>key</arg_key>\\n<arg_value>value</arg_value>\\n</tool_call>.' }}
{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|observation|>' }}{%- endif -%}
{{ '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- else -%}
{{ '<|' + message.role + '|>\\n' + message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '\\n<tool_call>' + call.function.name + '\\n' }}
{%- for key, value in call.function.arguments.items() -%}
{{ '<arg_key>' + key + '</arg_key>\\n<arg_value>' }}{{ value if value is string else value | tojson(ensure_ascii=False) }}{{ '</arg_value>\\n' }}
{%- endfor -%}
{{ '</tool_call>' }}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}`;

/** Like Kimi K2: a token for each border, calls with function ids in a separate section, tools first. */
export const KIMI = `{%- macro turn(role, name, content) -%}{{ '<|im_' + role + '|>' + name + '<|im_middle|>' + content }}{%- endmacro -%}
{%- if tools -%}{{ turn('system', 'tool_declare', tools | tojson(separators=(',', ':'))) + '<|im_end|>' }}{%- endif -%}
{%- set ns = namespace(calls=0, results=0) -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{ turn('system', 'tool', '## Return of ' ~ ns.results ~ '\\n' + message.content) }}
{%- set ns.results = ns.results + 1 -%}
{%- else -%}{{ turn(message.role, message.name or message.role, message.content) }}
{%- endif -%}
{%- if message.tool_calls -%}
{{ '<|tool_calls_section_begin|>' }}
{%- for call in message.tool_calls -%}
{{ '<|tool_call_begin|>functions.' + call.function.name ~ ':' ~ ns.calls ~ '<|tool_call_argument_begin|>' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '<|tool_call_end|>' }}
{%- set ns.calls = ns.calls + 1 -%}
{%- endfor -%}
{{ '<|tool_calls_section_end|>' }}
{%- endif -%}
{{ '<|im_end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_assistant|>assistant<|im_middle|>' }}{%- endif -%}`;

/**
 * Like gpt-oss: answers in channels, one call per message, the last answer ends with another token than earlier
 * ones.
 */
export const HARMONY = `{{- '<|start|>system<|message|>Channels: analysis, commentary, final.<|end|>' }}
{%- if tools -%}{{ '<|start|>developer<|message|># Tools\\nnamespace functions {' }}
{%- for tool in tools -%}{{ '\\n// ' + (tool.function.description or '') + '\\ntype ' + tool.function.name + ' = (_: ' + (tool.function.parameters | tojson) + ') => any;' }}{%- endfor -%}
{{ '\\n}<|end|>' }}{%- endif -%}
{%- set ns = namespace(name='') -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{ '<|start|>functions.' + ns.name + ' to=assistant<|channel|>commentary<|message|>' + (message.content | tojson) + '<|end|>' }}
{%- elif message.tool_calls -%}
{%- if message.tool_calls | length != 1 -%}{{ raise_exception('A message has one tool call.') }}{%- endif -%}
{%- set ns.name = message.tool_calls[0].function.name -%}
{{ '<|start|>assistant to=functions.' + ns.name + '<|channel|>commentary json<|message|>' + (message.tool_calls[0].function.arguments | tojson) + '<|call|>' }}
{%- elif message.role == 'assistant' -%}
{{ '<|start|>assistant<|channel|>final<|message|>' + message.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- else -%}
{{ '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start|>assistant' }}{%- endif -%}`;
