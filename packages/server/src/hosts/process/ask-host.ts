import type { Answered, Shutdown } from './messages.ts';
import { SupervisedHost } from './supervised-host.ts';

export interface HostQuestion {
  readonly name: string;
  /** host's main module, which calls `answerAsHost` */
  readonly modulePath: string;
  /** passed as JSON */
  readonly options: unknown;
  readonly file?: string;
  /** See `SupervisedHostOptions.secrets`; default: none. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly log: (line: string) => void;
  /** Ends the host early. */
  readonly signal?: AbortSignal;
}

/**
 * One answer from a child process, which has ended, with all its memory, when the promise settles.
 * @throws {ServerError} `server.host_failed_to_start`, with the host's reason; the reason of an aborted signal
 */
export async function askHost<Answer extends object>({
  name,
  modulePath,
  options,
  file,
  secrets = {},
  log,
  signal,
}: HostQuestion): Promise<Answer> {
  let answer: Answer | null = null;
  const host = new SupervisedHost<Shutdown, Answered<Answer>>({
    name,
    modulePath,
    options,
    ...(file === undefined ? {} : { file }),
    secrets,
    onMessage: (message) => {
      if (message.kind === 'ready') ({ answer } = message);
    },
    onLost: () => undefined,
    log,
  });
  signal?.throwIfAborted();
  const end = () => void host.close();
  signal?.addEventListener('abort', end, { once: true });
  try {
    await host.start();
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', end);
    await host.close();
  }
  if (answer === null) throw new Error(`the host '${name}' ended without a reply`);
  return answer;
}
