import { useState } from 'react';

import { Words } from '../components/words.tsx';
import { type ChatField, FIRST_FIELDS } from './chat-fields.ts';

/**
 * Fields of a request, as the service describes them. Empty fields are left out, so the defaults of the
 * service apply.
 */
export function FieldsForm({
  fields,
  texts,
  onChange,
}: {
  fields: readonly ChatField[];
  texts: Readonly<Record<string, string>>;
  onChange: (name: string, text: string) => void;
}) {
  const [wanted, setWanted] = useState('');
  const inputs = (some: readonly ChatField[]) =>
    some.map((field) => (
      <FieldInputView
        key={field.name}
        field={field}
        text={texts[field.name] ?? ''}
        onChange={(text) => onChange(field.name, text)}
      />
    ));
  const isFirst = ({ name }: ChatField) => FIRST_FIELDS.includes(name);
  const others = fields.filter((field) => !isFirst(field) && field.name.includes(wanted.trim().toLowerCase()));
  return (
    <div className="fields-form">
      {inputs(fields.filter(isFirst))}
      <details>
        <summary>All fields ({fields.length})</summary>
        <div className="fields-more">
          <input
            className="input"
            type="search"
            aria-label="Find a field"
            placeholder="Find a field"
            value={wanted}
            onChange={({ target }) => setWanted(target.value)}
          />
          {inputs(others)}
        </div>
      </details>
    </div>
  );
}

function FieldInputView({
  field: { name, input, description },
  text,
  onChange,
}: {
  field: ChatField;
  text: string;
  onChange: (text: string) => void;
}) {
  const shared = { className: 'input', id: `field-${name}`, value: text, 'aria-describedby': `about-${name}` };
  const options = input.kind === 'boolean' ? ['true', 'false'] : input.kind === 'choice' ? input.options : null;
  return (
    <div className="field">
      <label className="field-name" htmlFor={shared.id}>
        {name}
      </label>
      {options !== null ? (
        <select {...shared} onChange={({ target }) => onChange(target.value)}>
          <option value="">(default)</option>
          {options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      ) : input.kind === 'json' ? (
        <textarea
          {...shared}
          rows={2}
          spellCheck={false}
          placeholder="JSON"
          onChange={({ target }) => onChange(target.value)}
        />
      ) : (
        <input
          {...shared}
          inputMode={input.kind === 'number' ? (input.isInteger ? 'numeric' : 'decimal') : 'text'}
          placeholder={placeholderOf(input)}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
      <small id={shared['aria-describedby']}>
        <Words text={description} />
      </small>
    </div>
  );
}

function placeholderOf(input: ChatField['input']): string | undefined {
  if (input.kind !== 'number') return undefined;
  const minimum = shownLimit(input.minimum);
  const maximum = shownLimit(input.maximum);
  if (minimum === null) return maximum === null ? undefined : `up to ${maximum}`;
  return maximum === null ? `from ${minimum}` : `${minimum} to ${maximum}`;
}

/** Null for a limit too large to be worth showing. */
function shownLimit(limit: number | null): number | null {
  return limit === null || Math.abs(limit) > 1e6 ? null : limit;
}
