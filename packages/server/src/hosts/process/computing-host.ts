import type { ComputeMember, ComputeShares } from '../computing/compute-arbiter.ts';
import type { CoreCommand, CoreMessage } from '../computing/core-lease.ts';
import { SupervisedHost, type SupervisedHostOptions } from './supervised-host.ts';

/**
 * A supervised host that computes on the shared cores, as a member of the arbiter while it runs. Messages
 * about the cores are handled here; the owner gets the others.
 */
export class ComputingHost<Command extends { kind: string }, Message extends { kind: string }> {
  readonly host: SupervisedHost<Command | CoreCommand, Message | CoreMessage>;
  readonly #arbiter: ComputeShares;
  readonly #share: number;
  readonly #name: string;
  #member: ComputeMember | null = null;

  constructor(options: SupervisedHostOptions<Message> & { arbiter: ComputeShares; share: number }) {
    const { arbiter, share, onMessage, onLost, ...rest } = options;
    this.#arbiter = arbiter;
    this.#share = share;
    this.#name = rest.name;
    this.host = new SupervisedHost<Command | CoreCommand, Message | CoreMessage>({
      ...rest,
      onMessage: (message) => {
        if (isCoreMessage(message)) this.#onCoreMessage(message);
        else {
          if (message.kind === 'ready') this.#join();
          onMessage(message);
        }
      },
      onHung: () => this.#leave(),
      onLost: (reason) => {
        this.#leave();
        onLost(reason);
      },
    });
  }

  #leave(): void {
    this.#member?.leave();
    this.#member = null;
  }

  #join(): void {
    this.#member = this.#arbiter.join(this.#name, this.#share, {
      grant: () => this.host.send({ kind: 'cores-granted' }),
      yield: () => this.host.send({ kind: 'cores-wanted' }),
    });
  }

  #onCoreMessage(message: CoreMessage): void {
    if (message.kind === 'cores-request') this.#member?.request(message.use);
    else this.#member?.release(message.wantsMore);
  }
}

function isCoreMessage(message: { kind: string }): message is CoreMessage {
  return message.kind === 'cores-request' || message.kind === 'cores-release';
}
