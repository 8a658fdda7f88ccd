import { useState } from 'react';

import { Button } from '../components/button.tsx';

const EXAMPLE = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Current weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};
const FORCED = ['auto', 'none', 'required'] as const;

/**
 * Functions that the model may call, and which call is forced. Edits the fields `tools` and `tool_choice` of the
 * request.
 *
 * @param tools and @param choice texts of the two fields; empty: not sent
 */
export function ToolsEditor({
  tools,
  choice,
  onChange,
}: {
  tools: string;
  choice: string;
  onChange: (fields: { tools: string; tool_choice: string }) => void;
}) {
  const [isOpen, setIsOpen] = useState(tools !== '');
  const names = functionNames(tools);
  const forced = [...FORCED, ...names.map((name) => JSON.stringify({ type: 'function', function: { name } }))];
  return (
    <details className="tools-editor" open={isOpen} onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>Tools{names.length === 0 ? '' : ` (${names.length})`}</summary>
      <label className="field">
        Functions
        <textarea
          className="input mono"
          rows={tools === '' ? 3 : 10}
          spellCheck={false}
          placeholder="JSON list of functions"
          aria-invalid={tools !== '' && names.length === 0}
          value={tools}
          onChange={({ target }) => onChange({ tools: target.value, tool_choice: choice })}
        />
        {tools !== '' && names.length === 0 ? <small>Should be a list of functions with names, as JSON.</small> : null}
      </label>
      <div className="tools-actions">
        <Button onClick={() => onChange({ tools: withExample(tools), tool_choice: choice })}>Add a function</Button>
        {tools === '' ? null : (
          <Button look="quiet" onClick={() => onChange({ tools: '', tool_choice: '' })}>
            Remove all
          </Button>
        )}
      </div>
      {names.length === 0 ? null : (
        <label className="field">
          Call
          <select
            className="input"
            value={choice}
            onChange={({ target }) => onChange({ tools, tool_choice: target.value })}
          >
            <option value="">(default)</option>
            {forced.map((one, index) => (
              <option key={one} value={one}>
                {index < FORCED.length ? one : `always ${names[index - FORCED.length]!}`}
              </option>
            ))}
          </select>
        </label>
      )}
    </details>
  );
}

function functionNames(tools: string): string[] {
  try {
    const list: unknown = JSON.parse(tools);
    if (!Array.isArray(list)) return [];
    return list.flatMap((tool: { function?: { name?: unknown } } | null) =>
      typeof tool?.function?.name === 'string' ? [tool.function.name] : [],
    );
  } catch {
    return [];
  }
}

/** The list with one more function to edit; a text that is no list is replaced. */
function withExample(tools: string): string {
  let list: unknown;
  try {
    list = JSON.parse(tools);
  } catch {
    list = [];
  }
  return JSON.stringify([...(Array.isArray(list) ? (list as unknown[]) : []), EXAMPLE], null, 2);
}
