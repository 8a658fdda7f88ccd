import { DEFAULT_GENERATE, type GenerateRequest } from '@trainyard/generation';

type Fields = Readonly<Record<string, unknown>>;

const DEFAULT_SAMPLING = DEFAULT_GENERATE.sampling;

/**
 * A request as JSON, for a host of the same release: what it does not say is as in `DEFAULT_GENERATE`, which is most of it. The seed is text, as JSON has no whole
 * numbers of 64 bits. A host takes it in one piece, and not property by property.
 */
export function requestText(request: GenerateRequest): string {
  const { sampling } = request;
  const own = changesOf(request, DEFAULT_GENERATE);
  own['sampling'] = changesOf(sampling, DEFAULT_SAMPLING);
  if (sampling.seed !== null) own['seed'] = sampling.seed.toString();
  return JSON.stringify(own);
}

/** The other way round. @param text is trusted: this service wrote it */
export function readRequest(text: string): GenerateRequest {
  const { seed, sampling, ...own } = JSON.parse(text) as GenerateRequest & { readonly seed?: string };
  return {
    ...DEFAULT_GENERATE,
    ...own,
    sampling: { ...DEFAULT_SAMPLING, ...sampling, seed: seed === undefined ? null : BigInt(seed) },
  };
}

/** The fields that are neither as usual nor, as the seed, told apart. Lists are told anew unless they are empty where the default is. */
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
