import { Connection, type TrainyardOptions } from './http/connection.ts';
import { Adapters } from './resources/adapters.ts';
import { Artifacts } from './resources/artifacts.ts';
import { Chat } from './resources/chat.ts';
import { Conversations } from './resources/conversations.ts';
import { Exports } from './resources/exports.ts';
import { Completions, LoraAdapters, Messages, Responses, TokenGenerations, Tokens } from './resources/inference.ts';
import { Keys } from './resources/keys.ts';
import { BaseModels, Checkpoints, Models, ServedModels, TrajectoryLogs } from './resources/models.ts';
import { Events, Hosts, Service, Usage } from './resources/service.ts';
import { Sessions } from './resources/sessions.ts';
import { SftJobs, TrainingJobs } from './resources/training-jobs.ts';
import { Trajectories } from './resources/trajectories.ts';

/**
 * Client of a service's API, for Node.js and browsers: a resource per kind of object, a method per operation.
 * Names and values are those of the wire.
 *
 * Errors are `TrainyardApiError`s with the id of the request. Safe requests are repeated up to twice: those
 * without an effect, those with an `Idempotency-Key` (calls with an effect create one), and those that the
 * service refused for now.
 */
export class Trainyard {
  readonly #connection: Connection;
  readonly #options: TrainyardOptions;
  /** Model names for sampling requests. */
  readonly servedModels: ServedModels;
  readonly chat: Chat;
  readonly completions: Completions;
  readonly responses: Responses;
  readonly conversations: Conversations;
  readonly messages: Messages;
  readonly tokenGenerations: TokenGenerations;
  readonly tokens: Tokens;
  readonly loraAdapters: LoraAdapters;
  readonly baseModels: BaseModels;
  /** Models to train. */
  readonly models: Models;
  readonly checkpoints: Checkpoints;
  readonly trainingJobs: TrainingJobs;
  readonly sftJobs: SftJobs;
  readonly artifacts: Artifacts;
  readonly trajectories: Trajectories;
  readonly trajectoryLogs: TrajectoryLogs;
  readonly exports: Exports;
  readonly adapters: Adapters;
  readonly events: Events;
  readonly usage: Usage;
  readonly hosts: Hosts;
  readonly keys: Keys;
  readonly sessions: Sessions;
  readonly service: Service;

  /**
   * @throws {TypeError} without a key in the options or in `TRAINYARD_API_KEY`, for an invalid `baseUrl`, for
   *   an invalid `timeoutMs`
   */
  constructor(options: TrainyardOptions = {}) {
    const connection = new Connection(options);
    this.#connection = connection;
    this.#options = options;
    this.servedModels = new ServedModels(connection);
    this.chat = new Chat(connection);
    this.completions = new Completions(connection);
    this.responses = new Responses(connection);
    this.conversations = new Conversations(connection);
    this.messages = new Messages(connection);
    this.tokenGenerations = new TokenGenerations(connection);
    this.tokens = new Tokens(connection);
    this.loraAdapters = new LoraAdapters(connection);
    this.baseModels = new BaseModels(connection);
    this.models = new Models(connection);
    this.checkpoints = new Checkpoints(connection);
    this.trainingJobs = new TrainingJobs(connection);
    this.sftJobs = new SftJobs(connection);
    this.artifacts = new Artifacts(connection);
    this.trajectories = new Trajectories(connection);
    this.trajectoryLogs = new TrajectoryLogs(connection);
    this.exports = new Exports(connection);
    this.adapters = new Adapters(connection);
    this.events = new Events(connection);
    this.usage = new Usage(connection);
    this.hosts = new Hosts(connection);
    this.keys = new Keys(connection);
    this.sessions = new Sessions(connection);
    this.service = new Service(connection);
  }

  /** `fetch` with the key and headers of this client, for other clients of the service. */
  get fetch(): typeof fetch {
    return (input, init) => this.#connection.fetch(input, init);
  }

  /** Returns a client with changed options; omitted ones stay. */
  withOptions(options: TrainyardOptions): Trainyard {
    return new Trainyard({ ...this.#options, ...options });
  }

  /** Time on the service's clock, milliseconds since 1970; on the local clock before the first response. */
  now(): number {
    return this.#connection.clock.now();
  }

  /** URL of the API, ending in `/v1`. */
  get baseUrl(): string {
    return this.#connection.baseUrl;
  }
}
