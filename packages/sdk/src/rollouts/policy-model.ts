import {
  type CallOptions,
  type CreateModelRequest,
  type ModelObject,
  Trainyard,
  type WireTrajectory,
} from '../index.ts';
import { Conversations } from './conversations.ts';
import { recordingFetch } from './recording-fetch.ts';

type Scalars = Record<string, number | string | boolean | null>;

/**
 * A rollout in progress: a client whose chats with the model are recorded, and further data of the
 * trajectory.
 */
export interface Rollout {
  /** Full name of the model; the default `model` of requests. */
  readonly model: string;
  /** Client whose `chat.completions` are recorded. */
  readonly client: Trainyard;
  /** Options of an unmodified `openai` client: `new OpenAI(rollout.openai)`. */
  readonly openai: { readonly baseURL: string; readonly apiKey: string; readonly fetch: typeof fetch };
  readonly signal: AbortSignal | undefined;
  /** Metrics of the trajectory; their means become metrics of the checkpoint. */
  readonly metrics: Record<string, number | boolean>;
  readonly metadata: Scalars;
  /** Lines kept with the trajectory. */
  readonly logs: string[];
}

/** Plays one episode. @returns its reward, any finite number */
export type PlayRollout = (rollout: Rollout) => number | Promise<number>;

/** A trained model, for rollouts. */
export class PolicyModel {
  readonly client: Trainyard;
  readonly id: string;
  /** `entity/project/name` for the latest step; a `:stepN` suffix names a step. */
  readonly name: string;
  readonly #parts: ModelObject;

  constructor(client: Trainyard, model: ModelObject) {
    this.client = client;
    this.id = model.id;
    this.name = `${model.entity}/${model.project}/${model.name}`;
    this.#parts = model;
  }

  /** Finds or creates a model. Without `base_model` it uses the first one that the service lists. */
  static async open(
    client: Trainyard,
    model: Omit<CreateModelRequest, 'return_existing' | 'base_model'> & { base_model?: string },
    options: CallOptions = {},
  ): Promise<PolicyModel> {
    const base = model.base_model ?? (await client.servedModels.list(options)).data[0]?.id;
    if (base === undefined) throw new TypeError('The service serves no model: pass a `base_model`');
    return new PolicyModel(client, await client.models.register({ ...model, base_model: base }, options));
  }

  /**
   * Plays one episode and records it: a trajectory, ready to train on. Turns that continue each other are one
   * history; any other conversation (a second or a shortened one) is an additional history. Chats with other
   * models, for instance a judge, are not recorded.
   *
   * @throws errors of `play`; {TypeError} for a reward that is not finite
   */
  async rollout(play: PlayRollout, options: { signal?: AbortSignal | undefined } = {}): Promise<WireTrajectory> {
    const conversations = new Conversations();
    const fetch = recordingFetch(
      this.client.fetch,
      this.name,
      (model) => this.#isMeant(model),
      (call) => conversations.add(call),
    );
    const rollout: Rollout = {
      model: this.name,
      client: this.client.withOptions({ fetch }),
      // `fetch` sets the key.
      openai: { baseURL: this.client.baseUrl, apiKey: 'from-the-sdk', fetch },
      signal: options.signal,
      metrics: {},
      metadata: {},
      logs: [],
    };
    const reward = await play(rollout);
    if (!Number.isFinite(reward)) throw new TypeError(`the reward of a rollout must be a finite number, got ${reward}`);
    const { metrics, metadata, logs } = rollout;
    return { ...conversations.histories(), reward, metrics, metadata, logs };
  }

  /** True if a name means this model, at any step. */
  #isMeant(model: string): boolean {
    const [name] = model.split(/[:@]/);
    return name === this.#parts.name || name === this.name;
  }
}
