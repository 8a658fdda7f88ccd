import { keysOf } from '@trainyard/protocol/json';
import { argumentsSchema, type ToolDescription, type ToolFormat, withReferences } from '@trainyard/tokenizer';

type Format = Readonly<Record<string, unknown>>;

export interface CallFormatOptions {
  tools: readonly ToolDescription[];
  /** False: at most one call. */
  isParallel: boolean;
  /** Format of a text that starts calls, which may be a control token. */
  mark: (text: string) => Format;
}

/**
 * Structural tag for one or more calls of tools and nothing else, in the model's format. Arguments satisfy
 * the schemas of `strict` tools, and are any object for the others.
 *
 * @returns null for formats without a description here
 */
export function callFormat(format: ToolFormat, { tools, isParallel, mark }: CallFormatOptions): Format | null {
  switch (format) {
    case 'hermes': {
      const call = alternatives(tools, (tool) => jsonCall(tool, 'arguments'));
      return several(sequence(mark('<tool_call>'), LINE, call, LINE, text('</tool_call>')), LINE, isParallel);
    }
    case 'qwen_xml': {
      const call = alternatives(tools, xmlCall);
      return several(sequence(mark('<tool_call>'), LINE, call, LINE, text('</tool_call>')), LINE, isParallel);
    }
    case 'llama3_json':
      return several(
        alternatives(tools, (tool) => wholeObject(tool, 'parameters')),
        text('; '),
        isParallel,
      );
    case 'mistral': {
      const calls = several(
        alternatives(tools, (tool) => jsonCall(tool, 'arguments')),
        text(', '),
        isParallel,
      );
      return sequence(mark('[TOOL_CALLS]'), text('['), calls, text(']'));
    }
    case 'kimi_k2': {
      const call = alternatives(tools, (tool) =>
        sequence(
          mark('<|tool_call_begin|>'),
          text(`functions.${tool.function.name}:`),
          NUMBER,
          mark('<|tool_call_argument_begin|>'),
          json(closedArguments(tool)),
          mark('<|tool_call_end|>'),
        ),
      );
      const calls = several(call, text(''), isParallel);
      return sequence(mark('<|tool_calls_section_begin|>'), calls, mark('<|tool_calls_section_end|>'));
    }
    case 'glm': {
      const call = alternatives(tools, (tool) => sequence(text(tool.function.name), LINE, ...parametersOf(tool, GLM)));
      return several(sequence(mark('<tool_call>'), call, text('</tool_call>')), LINE, isParallel);
    }
    case 'minimax_m2': {
      const call = alternatives(tools, (tool) =>
        sequence(
          text(`<invoke name="${tool.function.name}">`),
          LINE,
          ...parametersOf(tool, MINIMAX),
          text('</invoke>'),
        ),
      );
      const calls = several(call, LINE, isParallel);
      return sequence(mark('<minimax:tool_call>'), LINE, calls, LINE, mark('</minimax:tool_call>'));
    }
    case 'granite':
    case 'nemotron': {
      const calls = several(
        alternatives(tools, (tool) => jsonCall(tool, 'arguments')),
        text(', '),
        isParallel,
      );
      const list = [text('['), calls, text(']')];
      return format === 'granite'
        ? sequence(mark('<|tool_call|>'), ...list)
        : sequence(mark('<TOOLCALL>'), ...list, mark('</TOOLCALL>'));
    }
    case 'cohere': {
      const calls = several(alternatives(tools, cohereCall), text(',\n    '), isParallel);
      return sequence(mark('<|START_ACTION|>'), text('[\n    '), calls, text('\n]'), mark('<|END_ACTION|>'));
    }
    case 'harmony': // chooses its channels before it is known if there will be a call
    case 'pythonic':
    case 'json_array':
    case 'named':
      return null;
    default:
      return format satisfies never;
  }
}

/**
 * Call as templates teach it, around a complete schema of the arguments: its references start at its own
 * root.
 */
function jsonCall(tool: ToolDescription, argumentsKey: string): Format {
  const head = `{"name": ${JSON.stringify(tool.function.name)}, "${argumentsKey}": `;
  return sequence(text(head), json(closedArguments(tool)), text('}'));
}

/** Call as one schema, as an alternative to another: both start with a brace. */
function wholeObject(tool: ToolDescription, argumentsKey: string): Format {
  const schema = withReferences(closedArguments(tool), (pointer) => `/properties/${argumentsKey}${pointer}`);
  return json({
    type: 'object',
    properties: { name: { type: 'string', enum: [tool.function.name] }, [argumentsKey]: schema },
    required: ['name', argumentsKey],
    additionalProperties: false,
  });
}

function cohereCall(tool: ToolDescription): Format {
  const head = `", "tool_name": ${JSON.stringify(tool.function.name)}, "parameters": `;
  return sequence(text('{"tool_call_id": "'), NUMBER, text(head), json(closedArguments(tool)), text('}'));
}

/** Tags around a parameter whose value is text. */
interface ParameterTags {
  open: (key: string) => string;
  close: string;
  /** Texts that no value contains. */
  excludes: readonly string[];
}

const QWEN: ParameterTags = {
  open: (key) => `<parameter=${key}>`,
  close: '</parameter>',
  excludes: ['<parameter=', '</function>'],
};
const GLM: ParameterTags = {
  open: (key) => `<arg_key>${key}</arg_key>\n<arg_value>`,
  close: '</arg_value>',
  excludes: ['<arg_key>', '</tool_call>'],
};
const MINIMAX: ParameterTags = {
  open: (key) => `<parameter name="${key}">`,
  close: '</parameter>',
  excludes: ['<parameter name=', '</invoke>'],
};

function xmlCall(tool: ToolDescription): Format {
  return sequence(text(`<function=${tool.function.name}>`), LINE, ...parametersOf(tool, QWEN), text('</function>'));
}

/** Parameters in the order of the schema, each once, with text values. */
function parametersOf({ function: { parameters } }: ToolDescription, tags: ParameterTags): Format[] {
  const { properties, required } = (parameters ?? {}) as { properties?: object | null; required?: unknown };
  const isRequired = new Set(Array.isArray(required) ? required : []);
  return keysOf(properties ?? {}).map((key) => {
    const value: Format = { type: 'any_text', excludes: tags.excludes };
    const parameter = sequence(text(tags.open(key)), value, text(tags.close), LINE);
    return isRequired.has(key) ? parameter : { type: 'optional', content: parameter };
  });
}

function closedArguments(tool: ToolDescription): Readonly<Record<string, unknown>> {
  if (tool.function['strict'] !== true) return { type: 'object' };
  // As for forced calls: properties that the schema does not list are excluded unless it allows them.
  const parameters = argumentsSchema(tool);
  const isOpen = parameters['properties'] === undefined || parameters['additionalProperties'] !== undefined;
  return isOpen ? parameters : { ...parameters, additionalProperties: false };
}

function several(call: Format, separator: Format, isParallel: boolean): Format {
  return isParallel ? sequence(call, { type: 'star', content: sequence(separator, call) }) : call;
}

function alternatives(tools: readonly ToolDescription[], write: (tool: ToolDescription) => Format): Format {
  return { type: 'or', elements: tools.map(write) };
}

function sequence(...elements: Format[]): Format {
  return { type: 'sequence', elements };
}

function text(value: string): Format {
  return { type: 'const_string', value };
}

function json(schema: unknown): Format {
  return { type: 'json_schema', json_schema: schema };
}

const NUMBER: Format = { type: 'regex', pattern: '[0-9]{1,4}' };
const LINE: Format = { type: 'optional', content: text('\n') };
