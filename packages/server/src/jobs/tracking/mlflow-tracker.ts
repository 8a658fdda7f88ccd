import { type RunReference, type RunTracker, type TrackedPoint, type TrackedRun, TrackerError } from './run-tracker.ts';

const RUN_TAG = 'trainyard.run_id';
/** Maximum number of metrics per request that the server allows. */
const MAX_METRICS = 1000;
const MAX_NAME_CHARACTERS = 250;
/** Maximum length of a server message that is passed on: it may contain whole statements. */
const MAX_WORDS = 200;

interface MlflowError {
  error_code?: string;
  message?: string;
}

interface MlflowRun {
  info: { run_id: string };
}

/**
 * Runs on an MLflow server, over its REST API 2.0: an experiment `entity/project` per project, a run per
 * model. A point that is sent twice is stored once.
 * @see https://mlflow.org/docs/latest/rest-api.html
 */
export class MlflowTracker implements RunTracker {
  readonly name = 'mlflow';
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #experiments = new Map<string, string>();

  /** @param url of the server; its user and password are sent as basic authentication */
  constructor(url: URL) {
    const { username, password } = url;
    const bare = new URL(url);
    bare.username = '';
    bare.password = '';
    this.#base = bare.href.replace(/\/$/, '');
    const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    this.#headers = username === '' ? {} : { authorization: `Basic ${Buffer.from(login).toString('base64')}` };
  }

  async begin(run: TrackedRun, signal: AbortSignal): Promise<RunReference> {
    const experiment = await this.#experiment(`${run.entity}/${run.project}`, signal);
    const filter = `tags.\`${RUN_TAG}\` = '${run.runId}'`;
    const found = await this.#call<{ runs?: MlflowRun[] }>('POST', 'runs/search', signal, {
      experiment_ids: [experiment],
      filter,
      max_results: 1,
    });
    const known = found.runs?.[0]?.info.run_id;
    if (known !== undefined) return this.#reference(experiment, known);
    const created = await this.#call<{ run: MlflowRun }>('POST', 'runs/create', signal, {
      experiment_id: experiment,
      run_name: run.name,
      start_time: run.createdAt,
      tags: [{ key: RUN_TAG, value: run.runId }],
    });
    const id = created.run.info.run_id;
    const params = Object.entries(run.parameters).map(([key, value]) => ({ key, value }));
    await this.#call('POST', 'runs/log-batch', signal, { run_id: id, params });
    return this.#reference(experiment, id);
  }

  async log(id: string, points: readonly TrackedPoint[], signal: AbortSignal): Promise<void> {
    const metrics = points.flatMap(({ time, step, metrics: values }) =>
      Object.entries(values).map(([name, value]) => ({ key: toMlflowName(name), value, timestamp: time, step })),
    );
    for (let first = 0; first < metrics.length; first += MAX_METRICS) {
      const part = metrics.slice(first, first + MAX_METRICS);
      await this.#call('POST', 'runs/log-batch', signal, { run_id: id, metrics: part });
    }
  }

  async delete(id: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#call('POST', 'runs/delete', signal, { run_id: id });
    } catch (error) {
      if (!(error instanceof TrackerError) || error.code !== 'gone') throw error;
    }
  }

  async check(signal: AbortSignal): Promise<void> {
    await this.#call('POST', 'experiments/search', signal, { max_results: 1 });
  }

  async #experiment(name: string, signal: AbortSignal): Promise<string> {
    const known = this.#experiments.get(name);
    if (known !== undefined) return known;
    const path = `experiments/get-by-name?experiment_name=${encodeURIComponent(name)}`;
    const find = async () =>
      (await this.#call<{ experiment: { experiment_id: string } }>('GET', path, signal)).experiment.experiment_id;
    const id = await find().catch(async (error: unknown) => {
      if (!(error instanceof TrackerError) || error.code !== 'gone') throw error;
      try {
        return (await this.#call<{ experiment_id: string }>('POST', 'experiments/create', signal, { name }))
          .experiment_id;
      } catch (failure) {
        // Another client has created it in the meantime.
        return await find().catch(() => Promise.reject(failure as Error));
      }
    });
    this.#experiments.set(name, id);
    return id;
  }

  #reference(experiment: string, id: string): RunReference {
    return { id, url: `${this.#base}/#/experiments/${experiment}/runs/${id}` };
  }

  async #call<Answer>(method: 'GET' | 'POST', path: string, signal: AbortSignal, body?: object): Promise<Answer> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${this.#base}/api/2.0/mlflow/${path}`, {
        method,
        signal,
        headers: { ...this.#headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      text = await response.text();
    } catch (cause) {
      throw new TrackerError('unreachable', 'MLflow does not respond; check that it runs, and check `--tracker`', {
        cause,
      });
    }
    const answer = parsed(text);
    if (response.ok && answer !== null) return answer as Answer;
    throw refusal(response.status, answer);
  }
}

function refusal(status: number, answer: MlflowError | null): TrackerError {
  if (status === 401 || status === 403)
    return new TrackerError('refused', `MLflow returned ${status}: the user or the password in \`--tracker\` is wrong`);
  if (answer?.error_code === undefined)
    return new TrackerError('refused', `the server is not MLflow (HTTP ${status}): check \`--tracker\``);
  const { error_code: code, message = '' } = answer;
  const words = message.slice(0, MAX_WORDS);
  const isGone = code === 'RESOURCE_DOES_NOT_EXIST' || /must be in the 'active' state/.test(message);
  return new TrackerError(isGone ? 'gone' : 'refused', `MLflow returned ${status} ${code}: ${words}`);
}

function parsed(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : null;
  } catch {
    return null;
  }
}

/** Replaces characters that MLflow metric names do not allow. */
function toMlflowName(name: string): string {
  return name.replaceAll(/[^\w\-. :/]/g, '_').slice(0, MAX_NAME_CHARACTERS);
}
