import { TrainyardApiError, TrainyardConnectionError } from '@trainyard/sdk';

import { Notice } from './notice.tsx';
import { shownName } from './shown-name.ts';

/** Why something could not be read or done, with the id that the log of the service has it under. */
export function Fault({ error }: { error: unknown }) {
  const requestId = error instanceof TrainyardApiError ? error.requestId : null;
  return (
    <Notice tone="bad">
      <span>{faultText(error)}</span>
      {requestId === null ? null : <small className="soft">Request {requestId}</small>}
    </Notice>
  );
}

/** The message of a fault for people. */
export function faultText(error: unknown): string {
  if (error instanceof TrainyardConnectionError) return 'The service does not answer: is it running?';
  const message = shownName(error instanceof Error ? error.message : String(error));
  // The status stands before it.
  return error instanceof TrainyardApiError ? message.replace(/^\d{3}: /, '') : message;
}
