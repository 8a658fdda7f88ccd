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

/** A rollout in progress: a client whose chats with the model are kept, and what else the trajectory is to say. */
export interface Rollout {
  /** Full name of the model; requests without a `model` mean it. */
  readonly model: string;
  /** Its `chat.completions` are kept. */
  readonly client: Trainyard;
  /** The same for an unmodified `openai`: `new OpenAI(rollout.openai)`. */
  readonly openai: { readonly baseURL: string; readonly apiKey: string; readonly fetch: typeof fetch };
  readonly signal: AbortSignal | undefined;
  /** Numbers of the trajectory; their means are metrics of the checkpoint. */
  readonly metrics: Record<string, number | boolean>;
  readonly metadata: Scalars;
  /** Lines that are kept with the trajectory. */
  readonly logs: string[];
}

/** Plays one episode. @returns its reward, any finite number */
export type PlayRollout = (rollout: Rollout) => number | Promise<number>;

/** A model that is trained, as rollouts see it. */
export class PolicyModel {
  readonly client: Trainyard;
  readonly id: string;
  /** `entity/project/name`: the latest step. With `:stepN` behind it a step. */
  readonly name: string;
  readonly #parts: ModelObject;

  constructor(client: Trainyard, model: ModelObject) {
    this.client = client;
    this.id = model.id;
    this.name = `${model.entity}/${model.project}/${model.name}`;
    this.#parts = model;
  }

  /** Finds or makes a model. Without `base_model` it is the one that the service names first. */
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
   * Plays one episode and keeps what was said: a trajectory, ready to train on. Turns that go on with each other are one history, whatever else was asked
   * (a second conversation, a shortened one) is an additional one. Chats with other models, a judge for instance, are not kept.
   *
   * @throws whatever `play` throws; {TypeError} for a reward that is not finite
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
      // The key is put in by the fetch.
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

  /** Whether a name means this model, at whatever step. */
  #isMeant(model: string): boolean {
    const [name] = model.split(/[:@]/);
    return name === this.#parts.name || name === this.name;
  }
}
