import type { GenerateRequest } from '@trainyard/generation';

import type { InferenceRequest } from './backends.ts';

/** Converts a request for an engine on this machine. @throws Error if the adapter's file was not resolved */
export function withAdapterFile({ adapter, origin, ...fields }: InferenceRequest): GenerateRequest {
  const request = { ...fields, traceParent: origin?.traceParent ?? null };
  if (adapter === null) return { ...request, adapter };
  const { digest, path } = adapter;
  if (path === null) throw new Error(`the file of the adapter ${digest} was not looked for`);
  return { ...request, adapter: { digest, path } };
}
