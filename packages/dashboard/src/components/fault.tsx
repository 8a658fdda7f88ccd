import { RequestFailure } from '../api/request.ts';
import { Notice } from './notice.tsx';

/** Why something could not be read or done, with the id that the log of the service has it under. */
export function Fault({ error }: { error: unknown }) {
  const message = error instanceof Error ? error.message : String(error);
  const requestId = error instanceof RequestFailure ? error.requestId : null;
  return (
    <Notice tone="bad">
      <span>{message}</span>
      {requestId === null ? null : <small className="soft">Request {requestId}</small>}
    </Notice>
  );
}
