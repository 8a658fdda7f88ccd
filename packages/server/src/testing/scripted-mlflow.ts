import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

interface MlflowMetric {
  key: string;
  value: number;
  timestamp: number;
  step: number;
}
interface MlflowRun {
  experiment: string;
  tags: { key: string; value: string }[];
  metrics: Map<string, MlflowMetric>;
  isDeleted: boolean;
}
type Body = Record<string, unknown>;

class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const MAX_METRICS = 1000;
const METRIC_NAME = /^[/\w.\- :]+$/;

/** Part of an MLflow server that the tracker calls, with the answers of release 3.17. */
export class ScriptedMlflow {
  readonly #server: Server;
  readonly #experiments = new Map<string, string>();
  readonly #runs = new Map<string, MlflowRun>();
  /** Required `Authorization`; null: none. */
  authorization: string | null = null;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#answer(request)
        .then(
          (body) => ({ status: 200, body }),
          (error: unknown) =>
            error instanceof Refusal
              ? { status: error.status, body: { error_code: error.code, message: error.message } }
              : { status: 500, body: { error_code: 'INTERNAL_ERROR', message: String(error) } },
        )
        .then(({ status, body }) =>
          response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
        )
        .catch(() => response.destroy());
    });
  }

  static async start(): Promise<ScriptedMlflow> {
    const scripted = new ScriptedMlflow();
    const listening = Promise.withResolvers<void>();
    scripted.#server.listen(0, '127.0.0.1', listening.resolve);
    await listening.promise;
    return scripted;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    const closed = Promise.withResolvers<void>();
    this.#server.close(() => closed.resolve());
    await closed.promise;
  }

  async #answer(request: IncomingMessage): Promise<object> {
    if (this.authorization !== null && request.headers.authorization !== this.authorization)
      throw new Refusal(401, 'UNAUTHENTICATED', 'You are not authenticated.');
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://local');
    const body = request.method === 'POST' ? ((await json(request)) as Body) : {};
    const route = pathname.replace('/api/2.0/mlflow/', '');
    switch (route) {
      case 'experiments/search':
        return { experiments: [] };
      case 'experiments/get-by-name': {
        const name = searchParams.get('experiment_name') ?? '';
        const id = this.#experiments.get(name);
        if (id === undefined) throw missing(`Could not find experiment with name '${name}'`);
        return { experiment: { experiment_id: id, name } };
      }
      case 'experiments/create': {
        const name = String(body['name']);
        if (this.#experiments.has(name))
          throw new Refusal(400, 'RESOURCE_ALREADY_EXISTS', `Experiment(name=${name}) already exists.`);
        const id = String(this.#experiments.size + 1);
        this.#experiments.set(name, id);
        return { experiment_id: id };
      }
      case 'runs/search': {
        const [, key, value] = /^tags\.`([^`]+)` = '([^']+)'$/.exec(String(body['filter'])) ?? [];
        const [experiment] = body['experiment_ids'] as string[];
        const found = [...this.#runs].find(
          ([, run]) =>
            !run.isDeleted &&
            run.experiment === experiment &&
            run.tags.some((tag) => tag.key === key && tag.value === value),
        );
        return found === undefined ? {} : { runs: [{ info: { run_id: found[0] } }] };
      }
      case 'runs/create': {
        const id = (this.#runs.size + 1).toString(16).padStart(32, '0');
        const tags = body['tags'] as MlflowRun['tags'];
        this.#runs.set(id, { experiment: String(body['experiment_id']), tags, metrics: new Map(), isDeleted: false });
        return { run: { info: { run_id: id } } };
      }
      case 'runs/log-batch': {
        const run = this.#run(body);
        if (run.isDeleted)
          throw new Refusal(
            400,
            'INVALID_PARAMETER_VALUE',
            `The run ${String(body['run_id'])} must be in the 'active' state. Current state is deleted.`,
          );
        const metrics = (body['metrics'] ?? []) as MlflowMetric[];
        if (metrics.length > MAX_METRICS || metrics.some(({ key }) => !METRIC_NAME.test(key) || key.length > 250))
          throw new Refusal(400, 'INVALID_PARAMETER_VALUE', 'Invalid value for parameter metrics');
        for (const metric of metrics) run.metrics.set(JSON.stringify(metric), metric);
        return {};
      }
      case 'runs/delete':
        this.#run(body).isDeleted = true;
        return {};
      case 'runs/get': {
        const run = this.#run({ run_id: searchParams.get('run_id') });
        return { run: { info: { lifecycle_stage: run.isDeleted ? 'deleted' : 'active' } } };
      }
      case 'metrics/get-history': {
        const run = this.#run({ run_id: searchParams.get('run_id') });
        const key = searchParams.get('metric_key');
        return { metrics: [...run.metrics.values()].filter((metric) => metric.key === key) };
      }
      default:
        throw missing(`no route ${route}`);
    }
  }

  #run(body: Body): MlflowRun {
    const run = this.#runs.get(String(body['run_id']));
    if (run === undefined) throw missing(`Run with id=${String(body['run_id'])} not found`);
    return run;
  }
}

function missing(message: string): Refusal {
  return new Refusal(404, 'RESOURCE_DOES_NOT_EXIST', message);
}
