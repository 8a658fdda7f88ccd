import type { EngineErrorCode } from '@trainyard/backend';
import type { FieldText, RequestErrorCode } from '@trainyard/protocol';
import { StoreError, type StoreErrorCode } from '@trainyard/store';

import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import { RequestError } from '../../seams/faults/request-error.ts';

/** Blob faults of one machine: another may reach the bucket, or have space. */
const OF_ONE_MACHINE = ['store.unavailable', 'store.disk_full'] as const satisfies readonly StoreErrorCode[];

/** An error of a back end for its caller, as data. */
export type WireFault =
  | {
      readonly kind: 'backend';
      readonly code: EngineErrorCode;
      readonly text: FieldText;
      readonly param: string | null;
    }
  | {
      readonly kind: 'request';
      readonly code: RequestErrorCode;
      readonly message: string;
      readonly param: string | null;
      readonly headers: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'blobs'; readonly code: (typeof OF_ONE_MACHINE)[number] };

/** Null for internal errors. */
export function toWireFault(error: unknown): WireFault | null {
  if (error instanceof BackendFailure) {
    const { code, text, param } = error;
    return { kind: 'backend', code, text, param };
  }
  if (error instanceof RequestError) {
    const { code, message, param, headers } = error;
    return { kind: 'request', code, message, param, headers };
  }
  const code = error instanceof StoreError ? OF_ONE_MACHINE.find((one) => one === error.code) : undefined;
  return code === undefined ? null : { kind: 'blobs', code };
}

export function fromWireFault(fault: WireFault): BackendFailure | RequestError | StoreError {
  if (fault.kind === 'backend') return new BackendFailure(fault.code, fault.text, fault.param);
  if (fault.kind === 'blobs') return new StoreError(fault.code, 'an engine cannot read an adapter; see its log');
  const { code, message, param, headers } = fault;
  return new RequestError(code, message, { param, headers });
}
