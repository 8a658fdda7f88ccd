import '../field.css';
import { useSearchParams } from 'wouter';

import { shownName } from '../shown-name.ts';
import { changed } from './changed.ts';

/** A filter in the address. @param options values with their texts; the empty value matches all */
export function FilterSelect({
  name,
  label,
  options,
  fallback = '',
}: {
  /** Parameter of the address. */
  name: string;
  label: string;
  options: readonly (readonly [value: string, text: string])[];
  /** Shown if the address has no value. */
  fallback?: string;
}) {
  const [value, setValue] = useAddressText(name);
  return (
    <label className="inline-field">
      {label}
      <select className="input" value={value || fallback} onChange={({ target }) => setValue(target.value)}>
        {options.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Options of a filter: all, or one of these names. */
export function allOr(names: readonly string[]): (readonly [value: string, text: string])[] {
  return [['', 'all'], ...names.map((name) => [name, shownName(name)] as const)];
}

/** A search text in the address. */
export function FilterText({ name, label }: { name: string; label: string }) {
  const [value, setValue] = useAddressText(name);
  return (
    <input
      className="input"
      type="search"
      aria-label={label}
      placeholder={label}
      value={value}
      onChange={({ target }) => setValue(target.value)}
    />
  );
}

/** A parameter of the address as state; the empty text removes it. */
function useAddressText(name: string): readonly [string, (value: string) => void] {
  const [parameters, setParameters] = useSearchParams();
  const set = (value: string) =>
    setParameters((before) => changed(before, { [name]: value || null }), { replace: true });
  return [parameters.get(name) ?? '', set];
}
