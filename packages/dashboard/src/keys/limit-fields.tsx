import '../components/field.css';
import type { KeyLimitsObject, KeyLimitsRequest } from '@trainyard/sdk';

/** The limits as typed; an empty text means no limit. */
export type TypedLimits = Readonly<Record<keyof KeyLimitsObject, string>>;

const FIELDS = [
  { name: 'requests_per_minute', label: 'Requests per minute', largest: 1_000_000 },
  { name: 'tokens_per_minute', label: 'Tokens per minute (prompt and completion)', largest: 1_000_000_000 },
  { name: 'max_requests_in_flight', label: 'Requests in flight', largest: 1_000_000 },
] as const satisfies readonly { name: keyof KeyLimitsObject; label: string; largest: number }[];

export const NO_LIMITS_TYPED: TypedLimits = {
  requests_per_minute: '',
  tokens_per_minute: '',
  max_requests_in_flight: '',
};

export function typedLimits(limits: KeyLimitsObject): TypedLimits {
  const typed = (limit: number | null) => (limit === null ? '' : String(limit));
  return {
    requests_per_minute: typed(limits.requests_per_minute),
    tokens_per_minute: typed(limits.tokens_per_minute),
    max_requests_in_flight: typed(limits.max_requests_in_flight),
  };
}

/** Returns all limits; an empty text becomes null. */
export function limitsOf(typed: TypedLimits): KeyLimitsRequest {
  const limit = (text: string) => (text === '' ? null : Number(text));
  return {
    requests_per_minute: limit(typed.requests_per_minute),
    tokens_per_minute: limit(typed.tokens_per_minute),
    max_requests_in_flight: limit(typed.max_requests_in_flight),
  };
}

export function LimitFields({ limits, onChange }: { limits: TypedLimits; onChange: (limits: TypedLimits) => void }) {
  return FIELDS.map(({ name, label, largest }) => (
    <label className="field" key={name}>
      {label}
      <input
        className="input"
        type="number"
        inputMode="numeric"
        min={1}
        max={largest}
        step={1}
        placeholder="no limit"
        value={limits[name]}
        onChange={(event) => onChange({ ...limits, [name]: event.target.value })}
      />
    </label>
  ));
}
