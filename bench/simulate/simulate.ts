import { seededRandom } from '@trainyard/trainer/testing';
import { EventQueue } from './event-queue.ts';
import type { MeasuredTimes } from './measured-times.ts';
import { SamplingServer } from './sampling-server.ts';
import { chooseServer } from './server-choice.ts';
import { TrainerPool } from './trainer-pool.ts';

/** A step of reinforcement learning: rollouts, then one job. */
export interface StepShape {
  readonly numGroups: number;
  readonly groupSize: number;
  readonly promptTokens: number;
  readonly replyTokens: number;
}

export interface Fleet {
  readonly numServers: number;
  readonly numTrainers: number;
  readonly maxSequences: number;
  /** Adapters per server. */
  readonly maxAdapters: number;
}

/** Models that are occasionally trained and used. */
export interface Load {
  readonly numModels: number;
  /** Runs of a model per day, which start at random times, and the steps of each. */
  readonly runsPerDay: number;
  readonly stepsPerRun: number;
  /** Mean number of single chats with a model per day; the k-th most popular one has a share of 1 / k. */
  readonly chatsPerDay: number;
}

export interface SimulationOptions {
  readonly times: MeasuredTimes;
  readonly shape: StepShape;
  readonly fleet: Fleet;
  readonly seed: number;
}

export interface Prediction {
  /** Length of the measured part. */
  readonly seconds: number;
  readonly numRollouts: number;
  /** Waits of groups for their adapter and for room, and of jobs for a trainer: seconds, unordered. */
  readonly samplingWaits: readonly number[];
  readonly trainingWaits: readonly number[];
  /** Whole steps, and their parts: seconds, including waits. */
  readonly samplingSeconds: readonly number[];
  readonly trainingSeconds: readonly number[];
  /** Share of the groups and chats with an adapter that the server had to load. */
  readonly adapterMissShare: number;
  /** Share of the time in which a server samples, and a trainer trains. */
  readonly samplingUse: number;
  readonly trainingUse: number;
}

const DAY_SECONDS = 86_400;
/** Share of the simulated steps that are skipped at the start. */
const WARM_UP = 0.1;

/** Simulates many models with runs at random times, for a number of steps. */
export function simulateLoad(load: Load, numSteps: number, options: SimulationOptions): Prediction {
  const world = new World(options);
  const { random, events } = world;
  const { shape, times } = options;
  const pickModel = zipf(load.numModels, random);
  const runsPerSecond = (load.numModels * load.runsPerDay) / DAY_SECONDS;
  const chatsPerSecond = (load.numModels * load.chatsPerDay) / DAY_SECONDS;
  const learning = new Set<number>();
  const isOver = (): boolean => world.numSteps >= numSteps;

  const beginRun = (model: number, steps: number): void => {
    if (learning.has(model) || steps === 0) return;
    learning.add(model);
    const next = (left: number): void => {
      if (left === 0) learning.delete(model);
      else world.step(model, () => next(left - 1));
    };
    next(steps);
  };
  const arrivals = (perSecond: number, arrive: () => void): void => {
    if (perSecond === 0) return;
    const next = (): void =>
      events.plan(events.now - Math.log(1 - random()) / perSecond, () => {
        arrive();
        next();
      });
    next();
  };
  // Number of runs in progress if nothing ever waited.
  const alone = stepSecondsAlone(shape, times);
  const numUnderWay = Math.min(load.numModels, Math.round(runsPerSecond * load.stepsPerRun * alone));
  for (let model = 0; model < numUnderWay; model++)
    events.plan(random() * alone, () => beginRun(model, 1 + Math.floor(random() * load.stepsPerRun)));
  arrivals(runsPerSecond, () => beginRun(Math.floor(random() * load.numModels), load.stepsPerRun));
  arrivals(chatsPerSecond, () => world.chat(pickModel()));
  let begins = 0;
  events.run(() => {
    if (begins === 0 && world.numSteps >= numSteps * WARM_UP) {
      begins = events.now;
      world.forget();
    }
    return isOver();
  });
  return world.predict(begins);
}

/** Simulates some models that train continuously, each for a number of steps. */
export function simulateLoops(numModels: number, stepsEach: number, options: SimulationOptions): Prediction {
  const world = new World(options);
  for (let model = 0; model < numModels; model++) {
    const next = (left: number): void => {
      if (left > 0) world.step(model, () => next(left - 1));
    };
    next(stepsEach);
  }
  world.events.run();
  return world.predict(0);
}

/** Servers and trainers for a load, so that each works for about the given part of the time. */
export function fleetFor(
  load: Load,
  { shape, times }: Pick<SimulationOptions, 'shape' | 'times'>,
  limits: Pick<Fleet, 'maxSequences' | 'maxAdapters'>,
  use: number,
): Fleet {
  const stepsPerSecond = (load.numModels * load.runsPerDay * load.stepsPerRun) / DAY_SECONDS;
  const chatsPerSecond = (load.numModels * load.chatsPerDay) / DAY_SECONDS;
  const { numGroups, groupSize, promptTokens, replyTokens } = shape;
  const promptsPerSecond = stepsPerSecond * numGroups + chatsPerSecond;
  const tokensPerSecond = (stepsPerSecond * numGroups * groupSize + chatsPerSecond) * replyTokens;
  const { maxSequences } = limits;
  const full = maxSequences / (times.stepSeconds + times.sequenceSeconds * maxSequences);
  const busyServers = tokensPerSecond / full + promptsPerSecond * promptTokens * times.promptTokenSeconds;
  return {
    ...limits,
    numServers: Math.max(1, Math.ceil(busyServers / use)),
    numTrainers: Math.max(1, Math.ceil((stepsPerSecond * jobSeconds(shape, times)) / use)),
  };
}

function jobSeconds({ numGroups, groupSize }: StepShape, times: MeasuredTimes): number {
  return times.jobSeconds + times.trajectorySeconds * numGroups * groupSize;
}

function stepSecondsAlone(shape: StepShape, times: MeasuredTimes): number {
  const step = times.stepSeconds + times.sequenceSeconds * shape.groupSize;
  return step * shape.replyTokens + shape.promptTokens * times.promptTokenSeconds + jobSeconds(shape, times);
}

/** Servers, trainers, and their statistics. */
class World {
  readonly events = new EventQueue();
  readonly random: () => number;
  readonly #options: SimulationOptions;
  readonly #servers: readonly SamplingServer[];
  readonly #trainers: TrainerPool;
  /** Steps of each model, which name its adapter. */
  readonly #versions = new Map<number, number>();
  #numSequences = 0;
  #seen = emptySeen();
  #before = { sampling: 0, training: 0, hits: 0, misses: 0 };
  numSteps = 0;

  constructor(options: SimulationOptions) {
    const { times, fleet, seed } = options;
    const { numServers, numTrainers, maxSequences, maxAdapters } = fleet;
    this.#options = options;
    this.random = seededRandom(seed);
    const { events } = this;
    const server = () => new SamplingServer({ events, times, maxSequences, maxAdapters });
    this.#servers = Array.from({ length: numServers }, server);
    this.#trainers = new TrainerPool(events, numTrainers);
    this.#share();
  }

  /** One server and one trainer on one machine slow down each other. */
  #share(): void {
    const { sharedSpeed } = this.#options.times;
    const [server] = this.#servers as [SamplingServer];
    const isOne = this.#servers.length === 1 && this.#options.fleet.numTrainers === 1;
    if (!isOne || (sharedSpeed.sampling === 1 && sharedSpeed.training === 1)) return;
    this.#trainers.onBusy = (isBusy) => server.setSpeed(isBusy ? sharedSpeed.sampling : 1);
    server.onBusy = (isBusy) => this.#trainers.setSpeed(isBusy ? sharedSpeed.training : 1);
  }

  /** Runs rollouts, a job, and the load of a new adapter. */
  step(model: number, onDone: () => void): void {
    const { shape, times } = this.#options;
    const version = this.#versions.get(model) ?? 0;
    const adapter = `${model} ${version}`;
    const began = this.events.now;
    let numLeft = shape.numGroups;
    for (let group = 0; group < shape.numGroups; group++)
      this.#sample({ adapter, prompt: `${group}`, numSequences: shape.groupSize }, () => {
        if (--numLeft > 0) return;
        const sampled = this.events.now;
        this.#seen.samplingSeconds.push(sampled - began);
        this.#trainers.submit(jobSeconds(shape, times), (waited) => {
          this.#seen.trainingWaits.push(waited);
          this.#seen.trainingSeconds.push(this.events.now - sampled);
          this.#seen.numRollouts += shape.numGroups * shape.groupSize;
          this.#versions.set(model, version + 1);
          this.numSteps++;
          onDone();
        });
      });
  }

  chat(model: number): void {
    const adapter = `${model} ${this.#versions.get(model) ?? 0}`;
    this.#sample({ adapter, prompt: `chat ${this.random()}`, numSequences: 1 }, () => {});
  }

  #sample(
    { adapter, prompt, numSequences }: { adapter: string; prompt: string; numSequences: number },
    onDone: () => void,
  ): void {
    const { promptTokens, replyTokens } = this.#options.shape;
    const server = chooseServer(this.#servers, `${adapter} ${prompt}`, numSequences, this.#numSequences);
    this.#numSequences += numSequences;
    server.submit({
      adapter,
      numSequences,
      promptTokens,
      replyTokens,
      onDone: (waited) => {
        this.#numSequences -= numSequences;
        this.#seen.samplingWaits.push(waited);
        onDone();
      },
    });
  }

  /** Drops the statistics so far. */
  forget(): void {
    this.#seen = emptySeen();
    this.#before = this.#totals();
  }

  predict(begins: number): Prediction {
    const { numRollouts, ...lists } = this.#seen;
    const seconds = this.events.now - begins;
    const totals = this.#totals();
    const before = this.#before;
    const misses = totals.misses - before.misses;
    const { fleet } = this.#options;
    return {
      ...lists,
      seconds,
      numRollouts,
      adapterMissShare: misses / Math.max(1, misses + totals.hits - before.hits),
      samplingUse: (totals.sampling - before.sampling) / seconds / fleet.numServers,
      trainingUse: (totals.training - before.training) / seconds / fleet.numTrainers,
    };
  }

  #totals() {
    const sum = (of: (server: SamplingServer) => number): number =>
      this.#servers.reduce((total, server) => total + of(server), 0);
    return {
      sampling: sum(({ busySeconds }) => busySeconds),
      training: this.#trainers.busySeconds,
      hits: sum(({ cache }) => cache.numHits),
      misses: sum(({ cache }) => cache.numMisses),
    };
  }
}

function emptySeen() {
  const list = (): number[] => [];
  return {
    numRollouts: 0,
    samplingWaits: list(),
    trainingWaits: list(),
    samplingSeconds: list(),
    trainingSeconds: list(),
  };
}

/** Draws numbers below `count`, the k-th in proportion to 1 / k. */
function zipf(count: number, random: () => number): () => number {
  const sums = new Float64Array(count);
  let total = 0;
  for (let index = 0; index < count; index++) sums[index] = total += 1 / (index + 1);
  return () => {
    const drawn = random() * total;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (sums[middle]! < drawn) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}
