import { Connection, type TrainyardOptions } from './http/connection.ts';
import { Adapters } from './resources/adapters.ts';
import { Artifacts } from './resources/artifacts.ts';
import { Chat } from './resources/chat.ts';
import { Conversations } from './resources/conversations.ts';
import { Exports } from './resources/exports.ts';
import { Completions, LoraAdapters, Messages, Responses, TokenGenerations, Tokens } from './resources/inference.ts';
import { Keys } from './resources/keys.ts';
import { Checkpoints, Models, ServedModels, TrajectoryLogs } from './resources/models.ts';
import { Events, Hosts, Service, Usage } from './resources/service.ts';
import { Sessions } from './resources/sessions.ts';
import { SftJobs, TrainingJobs } from './resources/training-jobs.ts';
import { Trajectories } from './resources/trajectories.ts';

/**
 * The API of a service, for Node.js and browsers: a resource for each kind of thing, a method for each operation. Names and values are those of the wire.
 *
 * Errors are `TrainyardApiError`s with the id of the request. What is safe is tried again, twice: what changes nothing, what goes with an
 * `Idempotency-Key` (calls with an effect make one up), and what the service refused for now.
 */
export class Trainyard {
  readonly #connection: Connection;
  readonly #options: TrainyardOptions;
  /** Names that `model` of a request for sampling can have. */
  readonly servedModels: ServedModels;
  readonly chat: Chat;
  readonly completions: Completions;
  readonly responses: Responses;
  readonly conversations: Conversations;
  readonly messages: Messages;
  readonly tokenGenerations: TokenGenerations;
  readonly tokens: Tokens;
  readonly loraAdapters: LoraAdapters;
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

  /** @throws {TypeError} without a key in the options or in `TRAINYARD_API_KEY`, with a `baseUrl` that is no URL, with a `timeoutMs` that is no time */
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

  /** `fetch` with the key and the headers of this client, for requests of other clients to the service. */
  get fetch(): typeof fetch {
    return (input, init) => this.#connection.fetch(input, init);
  }

  /** A client with other options; those that are not named stay. */
  withOptions(options: TrainyardOptions): Trainyard {
    return new Trainyard({ ...this.#options, ...options });
  }

  /** The time on the clock of the service, which its times are of, in milliseconds since 1970; by the own clock before its first answer. */
  now(): number {
    return this.#connection.clock.now();
  }

  /** Ends in `/v1`. */
  get baseUrl(): string {
    return this.#connection.baseUrl;
  }
}
