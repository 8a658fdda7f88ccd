import { DEFAULT_GENERATE, type GenerateRequest } from '@trainyard/generation';

type Fields = Readonly<Record<string, unknown>>;

const DEFAULT_SAMPLING = DEFAULT_GENERATE.sampling;

/**
 * A request as JSON, for a host of the same release, without the values of `DEFAULT_GENERATE`. The seed is
 * text, because JSON has no 64-bit integers.
 */
export function requestText(request: GenerateRequest): string {
  const { sampling } = request;
  const own = changesOf(request, DEFAULT_GENERATE);
  own['sampling'] = changesOf(sampling, DEFAULT_SAMPLING);
  if (sampling.seed !== null) own['seed'] = sampling.seed.toString();
  return JSON.stringify(own);
}

/** Inverse of {@link requestText}. @param text trusted: this service wrote it */
export function readRequest(text: string): GenerateRequest {
  const { seed, sampling, ...own } = JSON.parse(text) as GenerateRequest & { readonly seed?: string };
  return {
    ...DEFAULT_GENERATE,
    ...own,
    sampling: { ...DEFAULT_SAMPLING, ...sampling, seed: seed === undefined ? null : BigInt(seed) },
  };
}

/** Fields that differ from the defaults, without the seed. Non-empty lists are always included. */
function changesOf(fields: object, defaults: object): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const name in fields) {
    const value = (fields as Fields)[name];
    const standard = (defaults as Fields)[name];
    if (value === standard || typeof value === 'bigint' || (isEmpty(value) && isEmpty(standard))) continue;
    changes[name] = value;
  }
  return changes;
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
